"""The command line, the environment and the ports of `ray start`."""
