"""How the service is reached: addresses, key, TLS and time limits, checked before the first request.

Where the values come from (file, environment, credential) is left to the configuration.
"""

import ssl
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from pydantic import SecretStr

from assetsync.config.places import split_address
from assetsync.errors import ConfigError
from assetsync.service.multipart import Credential

_LONGEST_RETRY_AFTER = 3600.0
"""Seconds. To ask once an hour troubles nobody, and a proxy may name a day where it means minutes."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Everything that the client must know; timeouts in seconds.

    `read_timeout` is the longest silence of the service, and the longest time that a short answer may take in all.
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
    """An answer as it came."""

    content_type: str
    body: bytes


def checked_url(key: str, url: str) -> str:
    """Give the address back if a request can go there; raises ConfigError, which does not quote it (it may hold a key).

    `key` is its place in the configuration.
    """
    try:
        parts = split_address(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        sound = sound and url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        sound = False
    if not sound:
        raise ConfigError(key, [f"{key} is not an address: write http:// or https://, a host and a path"])
    return url


def tls_context(settings: ServiceSettings) -> ssl.SSLContext:
    """Make the TLS context: the system's authorities, or those of ca_file alone. Raises ConfigError for a bad file."""
    if settings.ca_file is None:
        urls = (settings.base_url, settings.upload_url, settings.proxy or "")
        if not any(url.startswith("https:") for url in urls):
            # Not used, and quick to make: it trusts nobody.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except (OSError, ValueError) as exc:
        raise unusable_ca_file(settings.ca_file, exc) from exc


def unusable_ca_file(ca_file: str, exc: Exception) -> ConfigError:
    """Give the error that says why the configured authorities cannot be used."""
    problem = f"service.ca_file: {ca_file} cannot be used as a file of certificates ({exc}): name a PEM file"
    return ConfigError("service.ca_file", [problem])


def retry_after_seconds(header: str | None) -> float | None:
    """Give the seconds that a Retry-After header asks for, an hour at most; None without one that can be read."""
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
