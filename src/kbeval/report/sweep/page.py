"""sweep.html."""

from __future__ import annotations


def sweep_html(sweep: object) -> bytes:
    return b""
