"""One line of 10 MB."""
print("x" * 10_000_000)
