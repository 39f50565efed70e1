"""A program that uses each function of the package as its users do. mypy --strict checks it (typed_test.go); nothing runs it."""

from typing import Dict, List, Optional

import rayctl


def one_job(seeds: List[int]) -> List[float]:
    """Runs a driver for each seed; returns the seconds that the drivers took."""
    took: List[float] = []
    for seed in seeds:
        try:
            result = rayctl.run(["python", "train.py"], options=["--workers", "2"], env={"SEED": str(seed)}, check=True, show=False)
        except rayctl.RunFailed as e:
            receipt: Optional[rayctl.Receipt] = e.receipt
            if receipt is None or e.code == 130:
                raise
            print(e.sentence, e.next_step, e.output.decode(), receipt["exit"]["cause"])
            continue
        except rayctl.LimitError as e:
            print(e.code, e.receipt["usage"]["nodeSeconds"] if e.receipt else 0.0)
            continue
        took.append(result.receipt["durations"]["driver"])
        print(result.code, result.output.decode(), result.receipt.get("figures", {}).get("loss", 0.0))
    return took


def several_jobs(name: str) -> Dict[str, int]:
    """Submits three jobs to a cluster that stays; returns their exit codes by submission id."""
    started: rayctl.Status = rayctl.up(name, options=["--workers", "1:4"])
    print(started["phase"], [node["host"] for node in started.get("nodes", [])])
    jobs: List[rayctl.Submitted] = [rayctl.submit(["python", "a.py", str(i)], cluster=name) for i in range(3)]
    codes: Dict[str, int] = {}
    for job in jobs:
        ended = rayctl.wait(name, job["submissionId"], check=False)
        codes[job["submissionId"]] = ended.get("driver_exit_code", -1)
        print(ended["status"], rayctl.logs(name, job["submissionId"], options=["--tail", "10"]).decode())
    rayctl.down(name, now=True)
    print(rayctl.status(name)["phase"])
    return codes


def detached(name: str) -> float:
    """Waits for a run that was started elsewhere; returns its cost in node-seconds."""
    receipt: rayctl.Receipt = rayctl.wait(name)
    return receipt["usage"]["nodeSeconds"] + receipt["durations"]["total"]


def in_a_block() -> Dict[str, str]:
    """Uses a cluster for a block; returns the variables for a child process."""
    with rayctl.cluster(options=["--workers", "2"], keep=False) as started:
        print(rayctl.binary(), started["name"])
        return rayctl.env(started["name"])
