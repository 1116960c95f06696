"""Mirror a local folder tree, one way, into a digital asset management service."""

__version__ = "0.1.0"
