"""Contents for the tests of the flow."""

import hashlib


def chunked(size: int) -> bytes:
    """Give bytes of which no two blocks are the same."""
    blocks = (hashlib.sha512(str(number).encode()).digest() * 1024 for number in range(size // 65536 + 1))
    return b"".join(blocks)[:size]
