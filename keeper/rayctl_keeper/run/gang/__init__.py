"""The nodes that must be there before the job begins."""
