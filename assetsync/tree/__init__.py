"""The local tree, read only: scan, watch, read and hash; no other package opens mirrored files."""
