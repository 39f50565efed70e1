"""The nodes that Ray's autoscaler asks for, and how many there may be."""
