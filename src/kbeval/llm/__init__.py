"""Calls to language models: one call (client), many within a rate (calls), what was paid for (journal), and reading
what came back (parsing)."""
