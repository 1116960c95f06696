"""Read the configuration of a site: a YAML file, read once, frozen.

`load` reads the file and words its mistakes. `models` defines the values of each key. `values` and `schedule` read
single values. `key` reads the API key, which is never in the file. Checking that the named files, folders and services
exist is left to `check`.
"""

from assetsync.config.key import KEY_VARIABLE, key_file, key_file_warning, outdated_credential, read_api_key
from assetsync.config.load import is_configuration, load_config, parse_config
from assetsync.config.models import SiteConfig, mappings
from assetsync.config.schedule import Cron, Interval
from assetsync.config.values import Listen, Window, duration

__all__ = [
    "KEY_VARIABLE",
    "Cron",
    "Interval",
    "Listen",
    "SiteConfig",
    "Window",
    "duration",
    "is_configuration",
    "key_file",
    "key_file_warning",
    "load_config",
    "mappings",
    "outdated_credential",
    "parse_config",
    "read_api_key",
]
