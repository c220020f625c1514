"""Where labelled queries come from."""
