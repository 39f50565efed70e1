"""Ways into a running job: connections to its nodes, and commands on them."""
