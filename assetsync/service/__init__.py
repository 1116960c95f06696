"""The service's three operations; the only package that speaks HTTP."""
