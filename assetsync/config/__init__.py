"""Read the configuration of a site: a YAML file, read once, frozen.

`load` reads the file and words its mistakes. `models` defines the values of each key, `outline` those that a reader of
the ledger needs. `values`, `schedule` and `timetable` read single values. `key` reads the API key, which is never in
the file. Checking that the named files, folders and services exist is left to `check`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assetsync.config.key import key_file, key_file_fix, key_file_warning, outdated_credential, read_api_key
    from assetsync.config.load import is_configuration, load_config, parse_config
    from assetsync.config.models import SiteConfig, mappings
    from assetsync.config.schedule import Cron, Interval
    from assetsync.config.source import KEY_VARIABLE
    from assetsync.config.values import Listen, duration

_MODULES = {
    "key": ("key_file", "key_file_fix", "key_file_warning", "outdated_credential", "read_api_key"),
    "load": ("is_configuration", "load_config", "parse_config"),
    "models": ("SiteConfig", "mappings"),
    "schedule": ("Cron", "Interval"),
    "source": ("KEY_VARIABLE",),
    "values": ("Listen", "duration"),
}

__all__ = [
    "KEY_VARIABLE",
    "Cron",
    "Interval",
    "Listen",
    "SiteConfig",
    "duration",
    "is_configuration",
    "key_file",
    "key_file_fix",
    "key_file_warning",
    "load_config",
    "mappings",
    "outdated_credential",
    "parse_config",
    "read_api_key",
]


def __getattr__(name: str) -> object:
    """Load the module of a name when it is used: most of them need pydantic, which is slow to load."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
