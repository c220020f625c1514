"""A person labels: what is asked, in which order, and the local page that asks it."""
