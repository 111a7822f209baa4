"""A stateful imitation of the Brev service and of its `brev` program, for tests, the demo and the sandbox.

The backend (`python -m controller.sandbox.brevsim`) owns one world: catalog, accounts, machines, invoice, faults,
logs and a clock. Machines are directories in which commands really run. The `brev` executable is a thin client of it.
"""

from controller.sandbox.brevsim.harness import Simulator
from controller.sandbox.brevsim.profile import Profile

__all__ = ["Profile", "Simulator"]
