"""brev-operator: NVIDIA Brev GPU machines, and the jobs on them, as Kubernetes objects."""

__version__ = "0.1.0"
