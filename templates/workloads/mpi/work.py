"""Computes pi: each process adds up its part, and MPI adds up the parts."""

from mpi4py import MPI

world, steps = MPI.COMM_WORLD, 1000000
part = sum(4 / (1 + ((i + 0.5) / steps) ** 2) for i in range(world.rank, steps, world.size)) / steps
pi = world.allreduce(part)
if world.rank == 0:
    print("pi is %.6f, by %d processes" % (pi, world.size), flush=True)
