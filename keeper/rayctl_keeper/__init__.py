"""What runs beside a cluster (docs/keeper.md): the keeper, the supervisors of Ray nodes, and what they need. Python 3.8 or later, standard library only.

Imports point down: slurm, kubernetes -> run -> http, driver -> node, ray -> host, state."""
