"""One module for each command; `cli.root` loads it when the command is called."""
