"""How a cluster ended: causes, exit codes of `rayctl run`, and one sentence. Pure."""

import signal

from rayctl_keeper.state.model import CODES, RETRYABLE, UNKNOWN_CAUSE, Cause, Origin


class End(Exception):
    """The end of the cluster, raised where it is noticed and carried out in one place."""

    def __init__(self, cause, message, grace=None, by="", retryable=None):
        super().__init__(message)
        self.cause, self.message, self.grace, self.by = cause, message, grace, by
        self.signalled = False  # by the substrate
        self.retryable = cause in RETRYABLE if retryable is None else retryable
        self.driver = None  # (code, signal) when the exit code is the driver's or job.prepare's

    def document(self):
        """The `exit` part of result.json."""
        if self.driver is not None:
            code, number = self.driver
            return {"origin": Origin.PREPARE if self.cause == Cause.PREPARE_FAILED else Origin.DRIVER, "cause": self.cause, "code": code, "signal": number,
                    "message": self.message, "retryable": False, "by": self.by}
        return {"origin": Origin.RAYCTL, "cause": self.cause, "code": CODES.get(self.cause, UNKNOWN_CAUSE), "signal": None,
                "message": self.message, "retryable": self.retryable, "by": self.by}


class AttemptLost(Exception):
    """This attempt of the cluster is over, another one may follow."""

    def __init__(self, message, cause=Cause.LOST, head_lives=False):
        super().__init__(message)
        self.cause = cause  # lost, preempted or time-limit
        self.head_lives = head_lives  # and with it the driver, which writes on


class Leaving(AttemptLost):
    """What the attempt needs, the head or the gang, is going to be taken away, in so many seconds."""

    def __init__(self, message, seconds, cause=Cause.PREEMPTED):
        super().__init__(message, cause)
        self.seconds = seconds


class Detached(Exception):
    """This keeper leaves, the cluster stays: another keeper will take over."""


def shell_code(raw):
    """Ray's driver_exit_code as (exit code in the shell's convention, signal or None).

    Ray runs the entrypoint by `sh -c`: a signal of the driver arrives as 128+n from the shell, or negative if the shell
    itself was replaced by the driver or hit."""
    if raw < 0:
        return 128 - raw, -raw
    if raw > 128 and raw - 128 in [s.value for s in signal.Signals]:
        return raw, raw - 128
    return raw, None


def signal_name(number):
    """SIGTERM for 15; real-time signals have no names."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def driver_end(raw):
    """The End for a driver that exited with Ray's code raw."""
    code, number = shell_code(raw)
    if code == 0:
        end = End(Cause.SUCCEEDED, "the driver succeeded")
    elif number is not None:
        end = End(Cause.DRIVER_SIGNALED, "the driver was ended by %s" % signal_name(number))
    else:
        end = End(Cause.DRIVER_FAILED, "the driver exited with code %d" % code)
    end.driver = (code, number)
    return end


def prepare_end(raw):
    """The same for job.prepare: where it succeeded the driver follows, and this is no end."""
    end = driver_end(raw)
    if end.cause == Cause.SUCCEEDED:
        return end
    code, number = end.driver
    how = "exited with code %d" % code if number is None else "was ended by %s" % signal_name(number)
    failed = End(Cause.PREPARE_FAILED, "job.prepare %s; the driver was not started" % how)
    failed.driver = end.driver
    return failed


def duration(seconds):
    """90 -> "1m30s", for sentences."""
    seconds, parts = int(round(seconds)), []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        if seconds >= size:
            parts.append("%d%s" % (seconds // size, unit))
            seconds %= size
    return "".join(parts) or "0s"


SENTENCES = {
    "lease": (Cause.ABANDONED, "the client did not commit the launch within %s"),
    "queue": (Cause.QUEUE, "the cluster was not admitted within lifetime.queue (%s)"),
    "start": (Cause.START_FAILED, "Ray was not up within lifetime.start (%s)"),
    "max": (Cause.MAX, "lifetime.max (%s) passed"),
    "total": (Cause.TOTAL, "lifetime.total (%s) passed"),
    "idle": (Cause.IDLE, "the cluster was idle for %s"),
    "idleGpu": (Cause.IDLE_GPU, "all GPUs did nothing for %s (lifetime.idleGpu)"),
    "disconnect": (Cause.DISCONNECTED, "no rayctl watched it for %s (--end-on-disconnect)"),
}


def limit_end(name, seconds, detail=""):
    """The End for a limit that passed."""
    cause, sentence = SENTENCES[name]
    message = sentence % duration(seconds)
    return End(cause, message + (": " + detail if detail else ""))
