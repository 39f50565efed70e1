"""Ray's dashboard over HTTP."""
