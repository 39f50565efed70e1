"""The driver: its submission through Ray's job API, and the copy of its output."""
