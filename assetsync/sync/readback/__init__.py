"""Index, read back, verify and audit stored assets."""
