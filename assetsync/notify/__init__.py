"""Messages to people about trouble (`notify` in the configuration); mirroring never waits for them."""
