"""Hold and check the client's settings before the first request: addresses, key, TLS and time limits.

The configuration reads the values from file, environment or credential.
"""

import ssl
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from pydantic import SecretStr

from assetsync.config.values import split_address
from assetsync.errors import ConfigError
from assetsync.service.multipart import Credential

_LONGEST_RETRY_AFTER = 3600.0
"""Longest wait in seconds: one request an hour is no burden, and a proxy may ask for a day where it means minutes."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The settings of the client; timeouts in seconds.

    `read_timeout` limits each silence of the service, and the total time of a short answer.
    """

    base_url: str
    upload_url: str
    api_key: SecretStr
    credential: Credential = "api_key"
    ca_file: str | None = None
    proxy: str | None = None
    connect_timeout: float = 10.0
    read_timeout: float = 300.0


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """An unparsed answer; the key is redacted in `body`."""

    content_type: str
    body: bytes


def checked_url(key: str, url: str) -> str:
    """Return the address unchanged if requests can be sent to it.

    `key` is its place in the configuration. Raise ConfigError, which does not quote the address, because it may
    contain a key.
    """
    try:
        parts = split_address(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        sound = sound and url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        sound = False
    if not sound:
        raise ConfigError([f"{key} is not an address: write http:// or https://, a host and a path"])
    return url


def tls_context(settings: ServiceSettings) -> ssl.SSLContext:
    """Return the TLS context, which trusts the system's authorities, or those of `ca_file` alone.

    Raise ConfigError for an unusable file.
    """
    if settings.ca_file is None:
        urls = (settings.base_url, settings.upload_url, settings.proxy or "")
        if not any(url.startswith("https:") for url in urls):
            # No address uses TLS: this context is never used, is fast to create and trusts no authority.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except (OSError, ValueError) as exc:
        raise unusable_ca_file(settings.ca_file, exc) from exc


def unusable_ca_file(ca_file: str, exc: Exception) -> ConfigError:
    """Return the error for a file of authorities that cannot be used, with the reason."""
    problem = f"service.ca_file: {ca_file} cannot be used as a file of certificates ({exc}): name a PEM file"
    return ConfigError([problem])


def retry_after_seconds(header: str | None) -> float | None:
    """Return the seconds that a Retry-After header asks for, at most an hour; None without a valid header."""
    if header is None:
        return None
    header = header.strip()
    if header.isascii() and header.isdigit():
        return min(float(header[:10]), _LONGEST_RETRY_AFTER)
    try:
        seconds = parsedate_to_datetime(header).timestamp() - time.time()
    except (ValueError, OverflowError, OSError):
        return None
    return min(max(seconds, 0.0), _LONGEST_RETRY_AFTER)
