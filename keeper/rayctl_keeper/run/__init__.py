"""The keeper: the life of a cluster, from the start of its nodes to its result."""
