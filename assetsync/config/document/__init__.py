"""The YAML documents that people write: a site's configuration and the sidecars, read alike.

`loader` turns bytes into plain texts and remembers where each stood, `problems` words what is wrong with them,
`metadata` is what both kinds of document may say of a file. What each document means is left to `config` and
`core.metadata`.
"""
