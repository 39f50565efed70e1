"""What ends a cluster in time: its limits, idleness, and the place where the keeper waits for them."""
