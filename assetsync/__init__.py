"""Mirror a local folder tree, one way, into a digital asset management service."""

__version__ = "0.1.0"

INTERRUPTED = 130
"""The exit code of a command that SIGINT (Ctrl-C) ended.

It is defined here because a command may be interrupted before its imports are done.
"""
