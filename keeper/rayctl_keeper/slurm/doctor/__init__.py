"""What `rayctl doctor` runs on nodes."""
