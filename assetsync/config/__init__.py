"""The configuration of a site: one YAML file, read once, frozen.

`load` reads it and words its mistakes, `models` says what each key may hold, `units`, `schedule` and `places` read the
single values, `key` finds the API key, which never stands in the file. Trying what the file names is left to `check`.
"""

from assetsync.config.key import KEY_VARIABLE, key_file_warning, read_api_key
from assetsync.config.load import load_config
from assetsync.config.models import (
    Brake,
    Folder,
    Log,
    Notify,
    Policy,
    Schedule,
    Service,
    SiteConfig,
    Status,
    Upload,
    Watch,
    mappings,
)
from assetsync.config.places import is_loopback
from assetsync.config.schedule import Cron, Interval
from assetsync.config.units import Listen, Window, duration

__all__ = [
    "KEY_VARIABLE",
    "Brake",
    "Cron",
    "Folder",
    "Interval",
    "Listen",
    "Log",
    "Notify",
    "Policy",
    "Schedule",
    "Service",
    "SiteConfig",
    "Status",
    "Upload",
    "Watch",
    "Window",
    "duration",
    "is_loopback",
    "key_file_warning",
    "load_config",
    "mappings",
    "read_api_key",
]
