"""A module that the driver finds only if its working directory arrived."""
VALUE = 42
