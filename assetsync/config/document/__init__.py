"""Read the YAML documents that people write: a site's configuration and the sidecars, by the same rules.

`loader` turns bytes into plain texts and records the position of each. `fields` reads single values. `problems` words
the mistakes. `metadata` defines the keys that both kinds of document may have for a file. The meaning of each document
is left to `config` and `core.metadata`.
"""
