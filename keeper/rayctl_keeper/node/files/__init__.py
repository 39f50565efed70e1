"""A node's directories, and the logs that are kept of them."""
