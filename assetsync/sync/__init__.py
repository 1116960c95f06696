"""The way of a file from the tree to a verified asset; each step acts only through its context."""
