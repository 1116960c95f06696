"""The status of a site, read from the ledger once, in the same form for commands, page, metrics and systemd."""
