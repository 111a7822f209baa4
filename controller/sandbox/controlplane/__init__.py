"""A real control plane on this machine: etcd, kube-apiserver and kube-controller-manager."""
