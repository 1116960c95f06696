"""A durable record of each file version; the only package that uses SQL."""
