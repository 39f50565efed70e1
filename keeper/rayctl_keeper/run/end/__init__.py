"""The end of a cluster or of nodes: drains, the grace of drivers, the result."""
