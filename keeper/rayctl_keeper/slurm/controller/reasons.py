"""Why a job of ours waits, in words."""

from rayctl_keeper.slurm.controller.sayings import LIMITS, NEVER, SAYINGS


def explain(reason):
    """(Slurm's reason, its sentence, whether a job that waits for it can never start), of squeue's text as of slurm/controller/reason.go."""
    reason = reason.strip("()")
    if reason in ("", "None"):
        return "Pending", "the job waits to be scheduled", False
    whole, (name, _, rest) = reason.replace(" ", "_"), reason.partition(",")
    name, rest = (whole, "") if whole in SAYINGS else (name.strip().replace(" ", "_"), rest.strip())
    words = SAYINGS.get(name)
    if words is None:
        limit = next((who for prefix, who in LIMITS if reason.startswith(prefix)), None)
        words, rest = "it has reached %s (%s)" % (limit, reason) if limit else "Slurm's reason is " + reason, ""
    return name, words + (" (%s)" % rest if rest else ""), name in NEVER
