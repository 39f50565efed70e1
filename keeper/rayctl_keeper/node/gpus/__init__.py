"""What a node's GPUs do."""
