"""The Haystack components of engine A that Haystack does not bring, and the pipeline made of both kinds.

Importing anything from here imports Haystack (about a second): do it where an engine is built, not before.
"""

from __future__ import annotations

import logging
import os

# Haystack decides about telemetry once, when it is imported: it then writes to ~/.haystack and calls home.
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

# What these say is for whoever configured logging; with no handler, Python prints it to standard error.
for _name in ("haystack", "haystack_integrations"):
    logging.getLogger(_name).addHandler(logging.NullHandler())
