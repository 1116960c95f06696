"""Stored assets are indexed, read back, verified and audited."""
