"""Asking an engine every question of a test set, and keeping what it answered."""
