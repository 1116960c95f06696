"""Uploads whose answer was lost: look-ups, candidates, and the decision to adopt or to send again."""
