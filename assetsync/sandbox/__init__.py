"""A local service that implements the interface, for the demo, for tests and for trying a configuration.

`Sandbox` and `serve` need the libraries of the extra `assetsync[sandbox]`; importing this package does not.
"""

from assetsync.sandbox.faults import FaultKind, FaultRule, Operation
from assetsync.sandbox.server import Sandbox, serve
from assetsync.sandbox.settings import SandboxSettings
from assetsync.sandbox.store import StoredAsset

__all__ = ["FaultKind", "FaultRule", "Operation", "Sandbox", "SandboxSettings", "StoredAsset", "serve"]
