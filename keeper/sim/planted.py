"""Bugs to plant into the keeper, and a seed whose life each of them spoils. Who changes the keeper or the models finds the seeds again by `--find --lives N`."""

import contextlib

from rayctl_keeper.driver import log, rayjob
from rayctl_keeper.http import mail
from rayctl_keeper.run import cluster, life, resume
from rayctl_keeper.run.end import finalize, grace
from rayctl_keeper.run.gang import gang
from rayctl_keeper.run.head import head, silence
from rayctl_keeper.run.job import attempts, driverwatch, job
from rayctl_keeper.run.limits import limits, timelimit, waiting
from rayctl_keeper.run.nodes import step
from rayctl_keeper.slurm.attempts import account, after, tenure
from rayctl_keeper.slurm.batch import killed, start
from rayctl_keeper.state import document, exits
from rayctl_keeper.state.exits import AttemptLost, End
from rayctl_keeper.state.model import RESTARTS
from sim import substrate


def _nothing(*_arguments, **_more):
    return None


def _submits_without_asking(dashboard, body, wait, pause, _same_head):
    """Sends again after each lost answer."""
    while True:
        try:
            dashboard.submit(body)
            return
        except rayjob.Unreachable as error:
            wait.goes_on(error)
        except rayjob.Refused as refused:
            raise End("submit-failed", str(refused))
        pause(0.5)


def _submits_to_any_head(dashboard, body, wait, pause, _same_head):
    return SUBMIT(dashboard, body, wait, pause, lambda _: None)


def _lost_at_once(self, error):
    raise AttemptLost("the head does not answer: %s" % error)


def _next_without_stop(self, limit):
    """The next attempt begins while the driver runs."""
    if limit.cause != "max" or not self._attempts.left("timeLimit"):
        raise limit
    self._attempts.use("timeLimit")
    self._begin(0)
    self._attempts.next("time-limit", limit.message, None)


def _next_without_number(self, cause, message, code):
    self.record(cause, message, code)
    self._driver_log.put_aside()
    self._state.change(job=self._state.new_job() if self._has_job else None)


def _result_first(self, end):
    self.ending.begin(end)
    self.ending.try_each((lambda: self.driver.collect(reachable=self.head.dashboard is not None),))
    self.ending.complete(end, client_asks_keeper=self.nodes.external)
    self.nodes.stop()


def _finish_without_the_end(self, reachable, ended=False):
    with self._lock:
        name, self._name = self._name, None
    if name is not None:
        self._base += self._got
        self._source = None


def _begin_again(self, filename, node_id, directories, stream, resume=False):
    """Forgets what it has of the log when a keeper follows another one."""
    return BEGIN(self, filename, node_id, directories, stream, False)


def _raw_code(raw):
    return (0, None) if raw == 143 else CODE(raw)


def _twice(self, path, exit, log_document):
    FINAL(self, path, exit, log_document)
    FINAL(self, path, exit, log_document)


def _another_head_is_the_same(self, answer):
    return False


def _stop_others_only(self, end, others=True):
    return ""


def _start_again_as_admitted(self, since=None):
    self.is_admitted = True
    START_AGAIN(self, since)


def _watch_that_reads(self, abandon):
    """Reads the run's directory itself, which may hang."""
    while not self._over.wait(tenure.RENEW):
        if tenure.is_over(self.superseded(), lambda: tenure.time.monotonic() - self._renewed, self._seconds, self.standing):
            abandon()


def _abandon_with_a_log(self):
    """Waits for its log, which may hang: all else that does goes on when it is reached again."""
    for pid in list(self.children):
        try:
            step.os.kill(pid, 10)
        except OSError:
            pass
    step.select.select([], [], [], step.LAST_WORDS)
    self.end_here()
    self.log("all that runs here was ended")
    step.os._exit(0)


def _late_file(self, abandon):
    """The file is there when Slurm has answered."""
    tenure.threading.Thread(target=self._renew, daemon=True).start()
    tenure.threading.Thread(target=self._watch, args=(abandon,), daemon=True).start()


SUBMIT, BEGIN, CODE, FINAL, START_AGAIN = rayjob.submit, log.DriverLog.begin, exits.shell_code, document.State.final, cluster.Cluster._start_again

# name: (object, attribute, replacement), and a seed; None: the models have not shown this bug yet
PLANTED = {
    "a submission is repeated without asking": ((rayjob, "submit", _submits_without_asking), 157),
    "a submission goes to whichever head answers": ((rayjob, "submit", _submits_to_any_head), 111),
    "the first silence is a loss": ((silence.Silence, "goes_on", _lost_at_once), 92),
    "the next attempt begins beside the driver": ((timelimit.TimeLimit, "next_attempt", _next_without_stop), 128),
    "attempts have the same number": ((attempts.Attempts, "next", _next_without_number), 1),
    "restarts are not counted": ((attempts.Attempts, "use", _nothing), 74),
    "restarts of a keeper before are forgotten": ((attempts.Attempts, "_count", lambda self, ended: setattr(self, "_used", dict.fromkeys(RESTARTS.values(), 0))), 222),
    "the result is written before the nodes have ended": ((life.Keeper, "finish", _result_first), 1),
    "nodes are not ended": ((substrate.SimSpawned, "stop", _nothing), 3),
    "the end of a log is not read": ((log.DriverLog, "finish", _finish_without_the_end), 115),
    "what is written after the last look is lost": ((driverwatch.DriverWatch, "collect_rest", _nothing), None),
    "a following keeper takes a log from its beginning": ((log.DriverLog, "begin", _begin_again), None),
    "logs of attempts are not put aside": ((log.DriverLog, "put_aside", _nothing), 1),
    "a driver that obeys SIGTERM has succeeded": ((exits, "shell_code", _raw_code), None),
    "a following keeper does not know why the driver was stopped": ((resume.Resumption, "was_stopping", _nothing), None),
    "a following keeper submits again": ((job.Job, "submitted", lambda self, number: False), None),
    "a following keeper forgets the document": ((resume.Resumption, "carry", _nothing), 2),
    "a following keeper forgets the end": ((resume, "the_end", _nothing), None),
    "the commit is not seen": ((mail.Mailbox, "look_for_commit", _nothing), 8),
    "limits do not pass": ((limits.Limits, "passed", _nothing), 2),
    "requests to end are not obeyed": ((waiting.Waiting, "obey", _nothing), None),
    "another head is taken for the same": ((gang.Gang, "is_another", _another_head_is_the_same), None),
    "a child's end is no loss": ((gang.Gang, "child_ended", _nothing), None),
    "two results": ((document.State, "final", _twice), 3),
    "a failed driver ends a run that may start again": ((attempts.Attempts, "left", lambda self, kind: False), 1),
    "the end is begun and not completed": ((finalize.Ending, "_record", _nothing), 3),
    "drivers get no grace": ((grace.Grace, "stop_drivers", _stop_others_only), 236),
    "the record is not waited for": ((document.State, "await_record", _nothing), None),
    "a head that leaves before it has answered admits the cluster": ((cluster.Cluster, "_start_again", _start_again_as_admitted), None),
    "a head that leaves is not remembered": ((resume, "CARRIED", tuple(name for name in resume.CARRIED if name != "head")), None),
    "gaps are forgotten": ((driverwatch.DriverWatch, "_noting_gaps", lambda self, take: take()), None),
    "a look at the head is left out": ((head.Head, "look", _nothing), None),
    # Of Slurm.
    "who watches a keeper reads a directory that may hang": ((tenure.Tenure, "_watch", _watch_that_reads), 81),
    "a keeper that ends itself waits for its log": ((step.Step, "abandon", _abandon_with_a_log), 323),
    "a keeper's tenure is written late": ((tenure.Tenure, "begin", _late_file), None),
    "the next attempt does not wait for the keeper before it": ((start, "take_over", _nothing), 8),
    "the next attempt waits less than the keeper before it may be silent": ((tenure, "ENDING", -10.0), None),
    "a keeper that another one follows goes on": ((tenure, "is_over", lambda *_: False), 81),
    "an attempt follows that may not": ((start, "allowed", lambda *_: True), 1),
    "a requeued attempt forgets those before": ((start, "attempts_of", lambda *_: []), 1),
    "what a keeper without a document knew is forgotten": ((after, "begun_with", lambda _: {}), None),
    "an end that was begun before a requeue does not stand": ((start, "begun", _nothing), None),
    "output is not kept for the attempt after a requeue": ((start, "keep_logs", _nothing), 318),
    "what a killed keeper had not copied is not salvaged": ((killed, "salvage", _nothing), None),
    "the srun of a killed keeper lives on": ((killed, "end_orphans", _nothing), None),
    "the end of the step is not seen": ((step.Step, "ended", lambda self, codes: []), None),
    "a start that Slurm has ended counts as one that failed": ((account, "overruled", lambda state, cause, message: list(state.get("attempts") or [])), None),
    "secrets outlive a requeued run": ((start, "strip_attempts", _nothing), None),
}


@contextlib.contextmanager
def planted(name):
    """The keeper has this bug; "" is none."""
    if not name:
        yield
        return
    (owner, attribute, replacement), _ = PLANTED[name]
    before = getattr(owner, attribute)
    setattr(owner, attribute, replacement)
    try:
        yield
    finally:
        setattr(owner, attribute, before)
