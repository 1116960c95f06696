"""How a site stands: read from the ledger once, and said alike by commands, page, metrics and systemd."""
