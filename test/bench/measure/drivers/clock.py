"""Prints the time of each line, ten lines a second."""
import time

for _ in range(50):
    print("printed", time.time(), flush=True)
    time.sleep(0.1)
