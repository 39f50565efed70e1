"""One submission of the job: what is sent to Ray, how its answers are read, and the driver's process on this host."""

import os
import re
import signal

from rayctl_keeper.driver import pipe
from rayctl_keeper.host import process
from rayctl_keeper.ray.dashboard import Refused, Unreachable, error_line
from rayctl_keeper.rayhook import setup_worker
from rayctl_keeper.state.document import wall
from rayctl_keeper.state.exits import AttemptLost, End, driver_end, prepare_end, shell_code
from rayctl_keeper.state.model import Cause, JobState
from rayctl_keeper.state.reserves import RESERVES, reserves

TERMINAL = (JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED)
TAKES_JOBS = 60.0  # seconds: a dashboard that takes none for longer than this and lifetime.silence did not start
VERL = "MLP_CURRENT_CAPACITY_BLOCK_EXPIRATION_TIMESTAMP"  # epoch seconds: verl/utils/checkpoint/checkpoint_manager.py, should_save_ckpt_esi
NOT_HERE = ("rayctl: the directory %s, in which rayctl was called, does not exist here: the job starts in another one, "
            "unless job.cwd or job.workingDir names one")
QUOTED = r"""(?:[^\s'"]|'[^']*'|"'")+"""
ENTERING = re.compile(r"cd -- " + QUOTED + r" (?:\|\| exit 1|2>/dev/null \|\| echo " + QUOTED + r")\n")  # the line of in_directory

HEADING, PREPARE_HEADING = "echo '==> driver <=='\n", "echo '==> job.prepare <=='\n"
RANKS = 'eval "$RAYCTL_RANKS"\n'  # begins a command that runs on every node (launcher/driverio/ranks.go)


def driver_id(orders, number):
    """The submission id of an attempt's driver."""
    return "%s-%d" % (orders["job"]["submissionPrefix"], number)


def driver_command(orders):
    """The driver's entrypoint as it is submitted."""
    return _line(_driver(orders["job"]))


def _driver(job):
    heading = HEADING if job.get("prepare") else ""
    return heading + in_directory(job.get("cwd"), job["entrypoint"], job.get("cwdOptional"))


def submission(orders, commit, number, reason, ends_at):
    """The body of POST /api/jobs/ for the driver. ends_at: epoch seconds of the run's end, None where there is no limit."""
    job = orders["job"]
    body = _body(orders, commit, number, reason, ends_at, driver_id(orders, number), _driver(job))
    for ours, rays in (("entrypointNumCpus", "entrypoint_num_cpus"), ("entrypointNumGpus", "entrypoint_num_gpus"),
                       ("entrypointMemory", "entrypoint_memory"), ("entrypointResources", "entrypoint_resources"),
                       ("entrypointLabelSelector", "entrypoint_label_selector")):
        if job.get(ours):
            body[rays] = job[ours]
    if reserves(job):  # Ray's record of a job has no amounts
        body["metadata"] = dict(body["metadata"], **{RESERVES: reserves(job)})
    return body


def preparation(orders, commit, number, reason, ends_at):
    """The body for job.prepare. It reserves nothing, so that Ray runs it on the head, also where the driver waits for GPUs."""
    return _body(orders, commit, number, reason, ends_at, prepare_id(driver_id(orders, number)), _prepare(orders["job"]))


def prepare_command(orders):
    """job.prepare as it is submitted, "" where there is none. Its heading in the log is its own first line, so that all who read Ray's log have it."""
    return _line(_prepare(orders["job"]))


def _prepare(job):
    return PREPARE_HEADING + in_directory(job.get("cwd"), job["prepare"], job.get("cwdOptional")) if job.get("prepare") else ""


def _line(command):
    """What Ray gets."""
    return pipe.through(command, user_command(command))


def _body(orders, commit, number, reason, ends_at, submission_id, command):
    """What a program of the job gets, which finds out about its run from RAYCTL_* variables."""
    job = orders["job"]
    runtime_env = dict(commit.get("runtimeEnv") or {})
    env = dict(runtime_env.get("env_vars") or {})
    env.update(job.get("env") or {})
    env.update({"RAYCTL_RUN": orders["name"], "RAYCTL_ATTEMPT": str(number), "RAYCTL_RESTART_REASON": reason,
                "RAYCTL_OUTPUT_DIR": job.get("outputDir") or "", "RAYCTL_SUBMISSION_ID": submission_id})
    env.update(gpu_sizes(orders))
    if ends_at is not None:
        env["RAYCTL_ENDS_AT"] = str(int(ends_at))
        of_nodes = [orders.get("ray") or {}] + (orders.get("groups") or [])
        if not any(VERL in (part.get("env") or {}) for part in of_nodes):
            env.setdefault(VERL, env["RAYCTL_ENDS_AT"])
    if job.get("cwd"):
        env[setup_worker.DIRECTORY] = pipe.literal(job["cwd"])
    if pipe.begins(command):
        env.update(pipe.variables(command))
    runtime_env["env_vars"] = env
    return {"entrypoint": _line(command), "submission_id": submission_id, "runtime_env": runtime_env, "metadata": job.get("metadata") or {}}


def gpu_sizes(orders):
    """The required nodes with GPUs, for frameworks that want both numbers; the second only where it is the same on all of them."""
    with_gpus = [g for g in orders.get("groups") or [] if g.get("gpus") and g["count"]]
    sizes = {"RAYCTL_GPU_NODES": str(sum(g["count"] for g in with_gpus))}
    each = {int(g["gpus"]) for g in with_gpus}
    if len(each) == 1:
        sizes["RAYCTL_GPUS_PER_NODE"] = str(each.pop())
    return sizes


def prepare_id(submission_id):
    """Of the job.prepare of the driver's attempt."""
    prefix, _, number = submission_id.rpartition("-")
    return "%s-prepare-%s" % (prefix, number)


def in_directory(directory, entrypoint, optional=False):
    """Ray gives the entrypoint to `sh -c`; a directory that the nodes have is entered there. One that is optional need not be there
    (launcher/driverio/entrypoint.go makes the same)."""
    import shlex
    if not directory:
        return entrypoint
    otherwise = "|| exit 1"
    if optional:
        otherwise = "2>/dev/null || echo " + shlex.quote(NOT_HERE % directory)
    return "cd -- %s %s\n%s" % (shlex.quote(directory), otherwise, entrypoint)


def user_command(entrypoint):
    """The user's part of an entrypoint, without the lines of pipe.py, in_directory and job.launch. A quoted directory may have line ends: the line ends behind its last quote."""
    entrypoint = pipe.without(entrypoint)
    for heading in HEADING, PREPARE_HEADING:
        entrypoint = entrypoint[len(heading):] if entrypoint.startswith(heading) else entrypoint
    entrypoint = entrypoint[len((ENTERING.match(entrypoint) or [""])[0]):]
    return entrypoint[len(RANKS):] if entrypoint.startswith(RANKS) else entrypoint


def has_ranks(job):
    """Whether the job's command runs on every node."""
    return job["entrypoint"].startswith(RANKS)


def upload(dashboard, run_dir, packages):
    """Gives the cluster the packages that it does not have; returns the names of those that the run directory does not have either."""
    missing = []
    for package in packages:
        path = os.path.join(run_dir, os.path.basename(package["file"]))
        try:
            if not dashboard.has_package(package["uri"]):
                dashboard.put_package(package["uri"], path)
        except FileNotFoundError:
            missing.append(package["file"])
        except (OSError, Refused) as error:
            raise End(Cause.PACKAGE_FAILED, "the package %s could not be uploaded to Ray: %s" % (package["file"], error))
    return missing


def patiently(ask, silence, pause):
    """Calls ask() until the dashboard responds, and returns the result. Raises AttemptLost when silence takes the head for lost."""
    while True:
        try:
            answer = ask()
            silence.broken()
            return answer
        except Unreachable as error:
            silence.goes_on(error)
        pause(0.5)


# How the dashboard answers 500 when the agent of the head's node, to which it hands jobs on, has not started within 10 s or is not reached: nobody has refused
# anything (dashboard/modules/job/job_head.py, submit_job, of Ray 2.40 to 2.60).
NO_AGENT = ("No available agent to submit job", "aiohttp.client_exceptions.")
# Of Ray's OutOfMemoryError, which the job has if the memory monitor killed its supervisor (Ray 2.49 to 2.60).
LOW_MEMORY = "due to the node running low on memory"


def submit(dashboard, body, silence, pause, same_head):
    """Submits exactly once, even if responses are lost: each retry first looks whether Ray has the job. Gives up when Ray refuses it, or accepts no job for too long.
    same_head(seconds) raises AttemptLost if another head answers now: the attempt is lost with its head, and a driver on the next head would run beside that of the next attempt."""
    begin, error = process.time.monotonic(), None

    def once():
        nonlocal error
        if error is not None and silence.limit and process.time.monotonic() - begin > max(TAKES_JOBS, silence.limit):
            raise AttemptLost("the dashboard accepted no job for %ds: %s" % (process.time.monotonic() - begin, error))
        try:
            same_head(silence.patience())
            if dashboard.job(body["submission_id"], silence.patience()) is None:
                dashboard.submit(body)
            return True
        except Refused as refused:
            # While the head's agent starts, a POST may return 500 although the job runs. The second refusal in a row is final.
            if dashboard_has(dashboard, body["submission_id"]):
                return True
            if refused.status < 500 or isinstance(error, Refused) and not any(words in str(refused) for words in NO_AGENT):
                raise End(Cause.SUBMIT_FAILED, "Ray refused the job: %s" % refused)
            error = refused
        except Unreachable as unreachable:
            error = unreachable
            raise
        return False

    while not patiently(once, silence, pause):
        pause(0.5)


def dashboard_has(dashboard, submission_id):
    """Whether Ray has the submission; False if the dashboard is unreachable."""
    try:
        return knows(dashboard, submission_id)
    except Unreachable:
        return False


def knows(dashboard, submission_id, timeout=2.0):
    """Whether Ray has the submission. Raises Unreachable."""
    try:
        return dashboard.job(submission_id, timeout) is not None
    except Refused:
        return False


def fields(info):
    """Our job fields from Ray's record."""
    found = {"state": info["status"], "driverNodeId": info.get("driver_node_id") or "",
             "message": first_line(info.get("message") or "")}
    if info.get("start_time"):
        found["startTime"] = wall(info["start_time"] / 1000.0)
    if info.get("end_time") and info["status"] in TERMINAL:
        found["endTime"] = wall(info["end_time"] / 1000.0)
    raw = exit_code(info)
    if raw is not None:
        found["exitCode"], found["signal"] = shell_code(raw)
    return found


def first_line(text):
    """The first line, at most 500 characters: Ray appends the end of the log."""
    return text.strip().partition("\n")[0].partition(", last available logs")[0][:500]


def whole_message(info):
    """Ray's whole message about a job, as the content of a log."""
    text = (info.get("message") or "").strip()
    return (text + "\n").encode("utf-8", "replace") if text else b""


SUPERVISOR_KILLED = " (the process ray::JobSupervisor, which runs it, was killed: `ray stop` or `pkill` of the driver does that, or the kernel when memory is used up)"


def exit_code(info):
    """Ray's exit code of the driver, which old versions only have in their message; None if there is none."""
    if info["status"] not in (JobState.SUCCEEDED, JobState.FAILED):
        return None
    if info.get("driver_exit_code") is not None:
        return info["driver_exit_code"]
    if info["status"] == JobState.SUCCEEDED:
        return 0
    found = re.search(r"failed with exit code (-?\d+)", info.get("message") or "")
    return int(found.group(1)) if found else None


def outcome(info, preparing=False):
    """The End for a record in a terminal state, of the driver or of job.prepare; AttemptLost if the cluster broke and not the job."""
    what = "job.prepare" if preparing else "the driver"
    message = info.get("message") or ""
    if info["status"] == JobState.STOPPED:
        return End(Cause.INTERRUPTED, "the job was stopped with `rayctl stop` or through Ray's job API")
    raw = exit_code(info)
    if raw is not None:
        return prepare_end(raw) if preparing else driver_end(raw)
    kind = info.get("error_type") or ""
    if LOW_MEMORY in message:
        return killed_for_memory(message, what) if info.get("driver_node_id") else End(Cause.SUBMIT_FAILED, "%s did not start: %s" % (what, low_memory(message)))
    # JobSupervisor runs the driver: without it the driver is dead, but not by its own doing.
    if "SUPERVISOR_ACTOR_DIED" in kind or re.search(r"actor (has )?died|node .*died|Job supervisor actor died", message, re.I):
        killed = SUPERVISOR_KILLED if "worker process has died" in message else ""
        raise AttemptLost("Ray lost %s: %s%s" % (what, first_line(message), killed))
    return not_started(message or kind, what)


def killed_for_memory(message, what):
    """The End of a job whose supervisor was killed: Ray ends the driver, its child, with SIGKILL, whichever of them has the memory."""
    end = driver_end(-signal.SIGKILL) if what == "the driver" else prepare_end(-signal.SIGKILL)
    end.message += "; Ray kills when a node's memory is nearly full: " + low_memory(message)
    return end


def low_memory(message):
    """What of the node's memory was used, by Ray's message."""
    found = re.search(r"was (?:running was )?([\d.]+\w*)(?: used)? / ([\d.]+\w*)", message)  # Ray 2.60; before it "running was", without "used"
    return "%s of %s were used (RAY_memory_usage_threshold sets how much may be)" % found.groups() if found else "the node ran low on memory"


def not_started(reason, what="the driver"):
    """The End of a job that Ray accepted and did not start, by Ray's message or log."""
    return End(Cause.SUBMIT_FAILED, "%s did not start: %s" % (what, error_line(reason)))


def find_driver(submission_id, directories):
    """Pid of the driver's shell if it runs below one of these nodes on this host, else 0.

    JobSupervisor starts it as the leader of a session and gives RAY_JOB_CONFIG_JSON_ENV_VAR to it alone, from where the
    driver's own children inherit it: it is the one whose parent lacks it. So does the parent of the process that copies its output (pump.py), which leads no session."""
    if not process.LINUX:
        return 0
    job = b"RAYCTL_SUBMISSION_ID=" + submission_id.encode()
    nodes = {b"RAYCTL_NODE_DIR=" + os.fsencode(d) for d in directories}

    def has_driver_environment(pid):
        lines = process.environ_of(pid).split(b"\0")
        return job in lines and not nodes.isdisjoint(lines) and \
            any(line.startswith(b"RAY_JOB_CONFIG_JSON_ENV_VAR=") for line in lines)

    table = process.process_table()
    found = [pid for pid in table if has_driver_environment(pid)]
    return next((pid for pid in found if table[pid][0] not in found and process.leads_session(pid)), 0)
