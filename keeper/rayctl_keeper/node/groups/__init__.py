"""The cluster's nodes by name, and what Ray's autoscaler knows of their groups."""
