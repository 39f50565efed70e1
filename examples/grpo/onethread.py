"""Keeps JAX to the processor and to one thread. Import this before jax.

Every actor here asks Ray for one processor, but JAX starts a thread for each one of the node, so that
a learner and two rollout actors on one machine would spend their time waiting for each other's threads.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("NPROC", "1")  # the size of XLA's own thread pools
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
