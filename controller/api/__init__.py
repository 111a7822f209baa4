"""The custom resources: the one source of the CRDs, of their reference, and of what the operator reads and writes."""
