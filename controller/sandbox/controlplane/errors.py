"""What can go wrong before a control plane answers; every message ends with what to do next."""


class ControlPlaneError(RuntimeError):
    """A component did not start or did not become ready; carries the last lines of its log."""


class BinariesUnavailableError(ControlPlaneError):
    """A binary was neither found nor could it be built on this machine."""
