"""A real control plane on this machine: etcd, kube-apiserver and kube-controller-manager.

`ControlPlane.start()` is all that most callers need; `Cluster` is how another process reaches one that runs.
"""

from controller.sandbox.controlplane.cluster import Cluster, Kubectl
from controller.sandbox.controlplane.errors import BinariesUnavailableError, ControlPlaneError
from controller.sandbox.controlplane.plane import ControlPlane

__all__ = ["BinariesUnavailableError", "Cluster", "ControlPlane", "ControlPlaneError", "Kubectl"]
