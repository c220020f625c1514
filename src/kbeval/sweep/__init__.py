"""Trying many configurations of an engine at the price of their distinct stages, and picking one on data."""
