"""The keeper of one cluster: `keeper.pyz keeper RUN_DIR`. See docs/keeper.md.

It starts the nodes before it imports modules that need long: Ray needs seconds to start, and meanwhile these imports take a tenth of a second."""

import json
import os
import signal
import sys
import time

from rayctl_keeper.host import process
from rayctl_keeper.host.address import NoAddress
from rayctl_keeper.node.files import raytoken
from rayctl_keeper.node.groups import autoscaling
from rayctl_keeper.node.groups.members import is_elastic
from rayctl_keeper.node.start import raystart
from rayctl_keeper.run.nodes.addresses import join, with_addresses
from rayctl_keeper.run.nodes.external import External
from rayctl_keeper.run.nodes.spawned import Queued, Spawned
from rayctl_keeper.run.nodes.step import Step
from rayctl_keeper.state.document import State, wall
from rayctl_keeper.state.model import Cause

MODES = {"spawn": Spawned, "queue": Queued, "step": Step, "external": External}  # by the mode of the orders' start


def main(arguments):
    """Entry point."""
    code = keep(os.path.abspath(arguments[0]))
    sys.stdout.flush()
    os._exit(code)  # without waiting for the API's threads, which may be sending an answer that nobody reads


def keep(run_dir, told=None, hands_over=False, companions=None, node_watch=None, allocation=None):
    """Claims the run directory, starts the nodes, serves the API and runs to the cluster's end; returns the exit code. told(number) is called at each signal.
    hands_over: at the end the keeper serves its result until the record has it, and returns 1 if it had to end before that. companions and node_watch: classes of the
    substrate; one requests further jobs, the other finds out which machines are going to be taken away. allocation: see Step.allocation."""
    keep_private()
    orders, failure = addressed(load(run_dir))
    log = opened_log(run_dir)
    if hands_over and os.path.exists(os.path.join(run_dir, "result.json")):
        return hand_over_again(run_dir, orders, log)
    if not claim(run_dir, orders):
        log("another keeper has this directory")
        return 1 if hands_over else 0  # with hands_over, code 0 would end the cluster
    process.become_subreaper()
    bell = process.Bell(told)
    bell.catch(signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGUSR1,))  # slurm/batch/batch.py has blocked it
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    earlier = predecessor(run_dir)
    state = State(orders, run_dir, log)
    nodes = MODES[orders["start"]["mode"]](orders, run_dir, bell, log)
    if companions and orders["start"].get("companions"):
        nodes.companions = companions(orders, run_dir, bell, log)
    if allocation:
        nodes.allocation = allocation
        allocation.begin(nodes.abandon)
    failure = failure or start(nodes, orders, run_dir)

    from rayctl_keeper.http import api
    from rayctl_keeper.http.handover import Handover
    from rayctl_keeper.run.life import Keeper
    from rayctl_keeper.run.shared import Sharing
    from rayctl_keeper.state.exits import End
    token, handover = raytoken.keepers(run_dir), Handover() if hands_over else None
    keeper = Keeper(orders, run_dir, nodes, bell, state, log, earlier, node_watch and node_watch(orders["name"], bell))
    sharing = keeper.sharing = Sharing(orders, run_dir, log)
    keeper.take_over()
    host, port = api.serve(orders["listen"] if failure else nodes.api_address(), token, run_dir, state, keeper.driver_log, keeper.mail, handover)
    url = "http://" + join(orders["advertise"] if host in ("0.0.0.0", "::") else host, port)
    state.change(keeper={"url": url, "host": os.uname().nodename, "pid": os.getpid(), "startTime": process.start_time(os.getpid())})
    if orders.get("watchStdin"):
        keeper.mail.watch_stdin()
    if failure:
        keeper.mail.asked = End(Cause.START_FAILED, "the nodes could not be started: %s" % failure)
    elif sharing.failure:
        keeper.mail.asked = End(Cause.START_FAILED, sharing.failure, retryable=False)
    keeper.run()
    sharing.end()
    if handover:
        return hand_over(handover, state, log)
    state.drain(0.5)
    return 0


def hand_over(handover, state, log):
    """Waits until the record has the result; returns the exit code. 1: this process had to end before that, or has left the cluster to the next keeper."""
    from rayctl_keeper.http.handover import LINGER, PATIENCE, SIGNALLED
    if "exit" not in state.doc:
        return 1
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: handover.conclude(SIGNALLED))
    outcome = handover.wait(PATIENCE)
    log("the result: %s" % (outcome or "the pod of the record has not read it"))
    state.drain(LINGER)
    return 1 if outcome == SIGNALLED else 0


def hand_over_again(run_dir, orders, log):
    """Completes the end for a keeper that was killed after it had written its result."""
    from rayctl_keeper.driver.log import DriverLog
    from rayctl_keeper.http import api
    from rayctl_keeper.http.handover import Handover
    state, driver_log, handover = State(orders, run_dir, log), DriverLog(run_dir, None, log), Handover()
    with open(os.path.join(run_dir, "result.json")) as f:
        state.doc = json.load(f)
    driver_log.ended(state.doc)
    api.serve(orders["listen"], raytoken.keepers(run_dir), run_dir, state, driver_log, None, handover)
    return hand_over(handover, state, log)


def keep_private():
    """Makes the files of the keeper and the supervisors readable for this user only. Drivers get the umask with which the keeper was started; on Slurm the batch
    script has set the keeper's umask."""
    os.environ.setdefault(raystart.UMASK, "%04o" % os.umask(0o077))


def load(run_dir):
    """Reads the orders; this keeper supports version 1."""
    with open(os.path.join(run_dir, "orders.json")) as f:
        orders = json.load(f)
    if orders.get("version") != 1:
        sys.exit("the keeper: orders of version %r are not supported" % orders.get("version"))
    return orders


def addressed(orders):
    """Returns the orders with this host's address, and None as error. If the host has no address, returns the orders with loopback, so that a result can be
    written, and the error."""
    try:
        return with_addresses(orders), None
    except NoAddress as error:
        local = dict(orders, listen="127.0.0.1:0", advertise="127.0.0.1", dashboardHost="127.0.0.1")
        return local, error


def claim(run_dir, orders):
    """Claims the run directory, which only one keeper can do. The keeper of an external cluster may be restarted: it claims the directory again."""
    try:
        fd = os.open(os.path.join(run_dir, "claim"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return orders["start"]["mode"] == "external" and not os.path.exists(os.path.join(run_dir, "result.json"))
    try:
        with os.fdopen(fd, "w") as f:
            json.dump({"pid": os.getpid(), "startTime": process.start_time(os.getpid()), "host": os.uname().nodename}, f)
    except OSError:
        pass  # a full disk: the file may be empty, only its existence matters
    return True


def predecessor(run_dir):
    """Returns what an earlier keeper of an external cluster has left: its state document, or its deadlines if it ran in another pod; {} if there was none."""
    for name, part in (("state.json", lambda d: d), ("deadlines", lambda d: {"deadlines": d})):
        try:
            with open(os.path.join(run_dir, name)) as f:
                return part(json.load(f))
        except (OSError, ValueError):
            continue
    return {}


def start(nodes, orders, run_dir):
    """Starts the nodes; returns an error instead of raising it, so that the result can include it."""
    try:
        if is_elastic(orders) and not nodes.external:
            autoscaling.write(orders, run_dir, autoscaling.limits_of(orders))
        nodes.start()
    except OSError as error:
        return error
    return None


def opened_log(run_dir):
    """A function that writes a line with time to keeper.log; a full disk does not stop the keeper."""
    fd = os.open(os.path.join(run_dir, "keeper.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    begin = time.monotonic()

    def log(text):
        try:
            os.write(fd, ("%s %8.3f %s\n" % (wall(), time.monotonic() - begin, text.rstrip())).encode("utf-8", "replace"))
        except OSError:
            pass
    return log
