"""What the tree shows becomes rows of the ledger: scans, watcher hints, settling, sidecars."""
