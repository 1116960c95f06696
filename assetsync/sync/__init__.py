"""The steps of a file from the tree to a verified asset. Each step acts only through its context."""
