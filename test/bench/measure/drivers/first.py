"""Prints that it has begun, and when it ended."""
import time

print("first line", flush=True)
print("last byte", time.time(), flush=True)
