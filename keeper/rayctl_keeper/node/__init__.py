"""The supervisor of one Ray node."""
