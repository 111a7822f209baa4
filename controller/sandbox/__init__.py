"""Everything to run the operator without a cluster, an account or a cloud: never imported by the product itself."""
