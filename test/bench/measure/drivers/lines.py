"""A million lines, as fast as they can be written."""
for start in range(0, 1_000_000, 1000):
    print("\n".join(f"line {i}" for i in range(start, start + 1000)))
