"""Views of the ledger for people and machines, read only."""
