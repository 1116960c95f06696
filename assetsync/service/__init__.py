"""The service's three operations as an HTTP client; no other package imports httpx."""
