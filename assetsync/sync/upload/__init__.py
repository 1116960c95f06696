"""Queued files are prepared, posted once, and their results recorded."""
