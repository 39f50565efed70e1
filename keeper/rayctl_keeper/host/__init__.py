"""Processes and ports of this host."""
