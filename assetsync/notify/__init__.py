"""Telling people outside of trouble: the configuration's `notify`. It reads facts, and nothing waits for it."""
