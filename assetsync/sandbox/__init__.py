"""A local service that implements the interface, for the demo, for tests and for trying a configuration."""
