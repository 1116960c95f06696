"""What an operator asks of the process that holds the ledger, as values that check and run themselves."""
