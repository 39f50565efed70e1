"""Orders for tests, and words that a shell or a document might take for something else."""

HOSTILE = "a b'c\"d $(touch /tmp/x) `id` \\ ;& \u00e9\nsecond line"


def orders(**more):
    return dict({"version": 1, "name": "n", "attempt": 1, "launcher": "local", "start": {"mode": "spawn"}, "lifetime": {},
                 "ray": {"python": "/opt/venv/bin/python", "tempRoot": "/tmp"},
                 "groups": [{"name": "head", "count": 1, "cpus": 0}, {"name": "w", "count": 2, "gpus": 1, "resources": {"a": 1}}],
                 "job": {"entrypoint": "python x.py", "submissionPrefix": "n", "grace": 2.5}}, **more)
