"""Ray's head: the one that greeted, and what its silence means."""
