"""Uploads whose answer was lost: look-ups, candidates, and the decision to adopt an asset or send again."""
