"""Name the address of the configuration at which something else than its operation answers, for `check` and `init`."""

from assetsync.config import SiteConfig
from assetsync.core.outcome import UPLOAD_ADDRESS_HELP, not_the_upload_address
from assetsync.errors import BadAnswer
from assetsync.model import AddressProbe
from assetsync.service.client import HttpService


def wrong_upload_url(probe: AddressProbe, config: SiteConfig) -> BadAnswer | None:
    """Return the error if something else than the upload operation answered the probe of `service.upload_url`.

    Probe the address once a search was answered: the key is then known to be valid.
    """
    if probe.is_right is not False:
        return None
    return BadAnswer(not_the_upload_address(config.service.upload_url, probe.detail), hint=UPLOAD_ADDRESS_HELP)


def swapped(service: HttpService, config: SiteConfig) -> BadAnswer | None:
    """Return the error if uploads are answered at `service.base_url`, after what answers there was no search."""
    if not service.probe_uploads(config.service.base_url).is_right:
        return None
    return BadAnswer(
        f"service.base_url: {config.service.base_url} is the address for uploads",
        hint="if service.base_url and service.upload_url are swapped, exchange them",
    )
