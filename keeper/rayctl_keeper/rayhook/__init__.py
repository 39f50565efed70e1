"""What runs inside `ray start`."""
