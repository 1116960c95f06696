"""The ledger's file: open, lock, check, migrate, read and write it. What its rows mean is left to the queries."""
