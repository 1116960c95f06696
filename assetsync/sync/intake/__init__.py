"""Intake: scans, watched paths and sidecars become rows of the ledger; sending is left to `sync.upload`."""
