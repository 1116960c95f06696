"""The local tree, read only: scanning, reading and hashing; the only package that opens mirrored files."""
