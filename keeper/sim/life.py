"""One life: orders, models, what goes wrong, and the promises that are checked while it goes on and at its end. All of it follows from the seed."""

import collections
import glob
import json
import os
import shutil
import signal

from rayctl_keeper.driver import rayjob
from rayctl_keeper.http.mail import Letter
from rayctl_keeper.run import keeper as entry
from rayctl_keeper.run.life import Keeper
from rayctl_keeper.state.document import DRAIN, State
from rayctl_keeper.state.model import RESTARTS
from sim import patched
from sim.substrate import Pods, SimExternal, SimSpawned
from sim.world import Bell, Killed, Process, Violation, World

AFTER = 60.0  # virtual seconds within which a local cluster is gone whose keeper was killed
KEEPERS = 8  # of one external cluster


class Life:
    """Run it once."""

    external, by_keeper = False, True

    def __init__(self, seed, root, without=()):
        """without: numbers of strikes that are left out, to find out which of them matter."""
        self.seed, self.world, self.without = seed, World(seed), without
        self.strikes = []  # (name, whether it was left out)
        self.world.life = self
        self.dir = os.path.join(root, "life-%d" % seed)
        self.heads, self.nodes_by_pid, self.pid = {}, {}, 100
        self.drivers = []  # all processes of the user's that ran, in this order
        self.fds = {}
        self.results = 0
        self.asked = []  # ends that somebody asked for: (moment, cause)
        self.struck = collections.Counter()  # what struck in which phase, with which states of the programs
        self.revision = self.mutes = 0  # of the last document; how often the dashboard hung
        self.loss_ever = self.full = self.extended = self.now = False  # what has happened that excuses some ends
        self.loss = 0.0  # the probability that a request or an answer is lost
        self.process = None  # of the present keeper
        self.cause, self.ends_at = "without a result", None  # of the end, and when it began
        self.record, self.recorded = None, 0  # what the record's pod has of the state document, and its revision
        self.orders = self._orders()
        self.grace = float((self.orders.get("job") or self.orders)["grace"])

    def _orders(self):
        """As launches of users have them, with limits that a life can reach."""
        chance, random = self.world.chance, self.world.random
        groups = [{"name": "head", "count": 1, "cpus": 1}]
        if chance(0.7):
            groups.append({"name": "w", "count": random.randint(1, 3), "cpus": 1})
        lifetime = {"lease": 120, "start": 600, "silence": random.choice([60, 300]), "max": random.choice([0, 0, 0, 40, 90]), "total": random.choice([0, 0, 0, 200]),
                    "idle": random.choice([0, 0, 30]), "queue": 0}
        start = {"mode": "external", "dashboard": "http://head", "gcs": "head:1"} if self.external else {"mode": "spawn"}
        orders = {"version": 1, "name": "n", "attempt": 1, "launcher": "kuberay" if self.external else "local", "start": start, "lifetime": lifetime, "groups": groups,
                  "ray": {"python": "/opt/venv/bin/python", "tempRoot": "/tmp"}, "grace": 3.0, "listen": "127.0.0.1:0", "advertise": "127.0.0.1", "dashboardHost": "127.0.0.1",
                  "job": None}
        if chance(0.9):
            restarts = {"driver": random.choice([0, 1, 2, 5]), "nodeFailure": random.choice([0, 1, 3, -1]), "preempted": random.choice([0, -1, 1]), "timeLimit": random.choice([0, 1, 2])}
            orders["job"] = {"entrypoint": "python x.py", "submissionPrefix": "n", "grace": random.choice([0.0, 2.0, 6.0]), "restarts": restarts, "metadata": {}}
            if chance(0.3):
                orders["job"]["prepare"] = "python load.py"
        elif not lifetime["max"] and not lifetime["idle"]:
            lifetime["max"] = 60
        return orders

    @property
    def keeper(self):
        return self.process and self.process.keeper

    @property
    def bell(self):
        return self.process and self.process.bell

    # The keeper's world.

    def head_at(self, url):
        return self.heads.get(url)

    def head_died(self, head):
        """Nobody but the keeper asks for it."""

    def head_of(self, nodes, number):
        """The head of a round of a keeper's nodes."""
        for pid, node in self.nodes_by_pid.items():
            if node.member.head and node.round == number and node.nodes is nodes:
                found = self.heads.get("http://head-%d" % pid)
                if found is not None:
                    return found
        return None

    def loses(self):
        """What the network does to this request."""
        if self.loss and self.world.chance(self.loss):
            return self.world.random.choice(["request", "answer"])
        return None

    def dies(self):
        """Whether the keeper is killed before or after this request is carried out."""
        if self.kills_at_calls and self.world.chance(0.004):
            return self.world.random.choice(["before", "after"])
        return None

    def gcs_lives(self, _address):
        head = self.head_at(self.world.current.process.nodes.dashboard)
        self.world.spend(0.01)
        return None if head is None else head.alive

    def start_fails(self, member):
        return self.world.chance(0.015)

    def child_ended(self, process, pid, code):
        process.children[pid] = code
        process.bell.ring()

    def reap(self):
        process = self.world.current.process
        ended, process.children = process.children, {}
        return ended

    def find_driver(self, submission_id, _directories):
        if self.external:
            return 0
        return next((1000 + i for i, d in enumerate(self.drivers) if d.submission_id == submission_id and d.alive), 0)

    def pidfd(self, pid):
        fd, driver = os.open(os.devnull, os.O_RDONLY), self.drivers[pid - 1000]
        self.fds[fd] = driver
        self.world.current.process.bell.readable[fd] = lambda: not driver.alive
        return fd

    def wait_for(self, fds, seconds):
        bell = self.world.current.process.bell
        bell.wait_until(lambda: bell.ready(fds), self.world.now + (seconds or 0))
        return bell.ready(fds)

    def save_rest(self, node):
        """As the supervisor does (node/files/rest.py): the driver's output that the keeper has not copied."""
        for path in glob.glob(os.path.join(node.directory, "t", "session_2", "logs", "*.log")):
            target = os.path.join(self.run_dir, "nodes", node.member.name)
            os.makedirs(target, exist_ok=True)
            shutil.copy(path, os.path.join(target, os.path.basename(path) + ".whole"))

    def wrote(self, path):
        """A document of the keeper's is on the disk."""
        if path.endswith(("state.json", "result.json")):
            with open(path) as f:
                doc = json.load(f)
            known = self.recorded if self.external else self.revision
            if doc["revision"] < known and not self.full:  # a keeper that could not write is followed from what it had written before
                raise Violation("revision %d follows %d" % (doc["revision"], known))
            self.revision = doc["revision"]
            if doc["phase"] == "Draining" and self.ends_at is None:
                self.ends_at = self.world.now
        if path.endswith("result.json"):
            self.results += 1
            running = [d.submission_id for d in self.drivers if d.alive]
            if running and not self.external:
                raise Violation("the result is written while %s runs" % running)

    # What is checked all the time.

    def driver_begins(self, driver, head):
        driver.alive, driver.head, driver.began = True, head, self.world.now
        self.drivers.append(driver)
        self.world.say("the driver %s begins on %s" % (driver.submission_id, head.session))
        if DRAIN in driver.submission_id:
            return
        others = [d.submission_id for d in self.drivers if d.alive and d is not driver and DRAIN not in d.submission_id]
        if others:
            raise Violation("%s begins while %s runs" % (driver.submission_id, others))
        if self.results and not self.external:
            raise Violation("%s begins after the end" % driver.submission_id)

    def driver_ends(self, driver, code):
        driver.alive, driver.ended_with, driver.ended_at = False, code, self.world.now
        driver.seconds = self.world.now - driver.began
        self.world.say("the driver %s ends: %s" % (driver.submission_id, "with its node" if code is None else code))
        for bell in self.bells():
            bell.ring()

    def bells(self):
        """Of the keepers that are there."""
        return [self.process.bell] if self.bell else []

    def keeper_begins(self, process):
        """It takes signals from now on."""

    # The life.

    def run(self):
        """Raises Violation."""
        patched.LIFE = self
        try:
            self._prepare()
            if self.external:
                self.pods = Pods(self)
            self._plan()
            self._keepers()
        finally:
            for fd in self.fds:
                try:
                    os.close(fd)
                except OSError:
                    pass
            self.world.close()
            patched.LIFE = None
            shutil.rmtree(self.dir, ignore_errors=True)

    def _prepare(self):
        self.run_dir = os.path.join(self.dir, "run-1")
        os.makedirs(self.run_dir)
        self._orders_into(self.run_dir)

    def _orders_into(self, run_dir):
        for name, text in (("orders.json", json.dumps(self.orders)), ("token", "token"), (".reserve", "x")):
            with open(os.path.join(run_dir, name), "w") as f:
                f.write(text)

    def _plan(self):
        """What is going to happen: the client's part, and what goes wrong."""
        world = self.world
        self._plan_commit()
        plain = world.chance(0.15)  # nothing goes wrong
        if plain:
            return
        for number in range(world.random.choice([2, 3, 4, 5, 6, 8, 12])):
            moment, strike = world.between(0.0, world.random.choice([15.0, 60.0, 150.0])), world.random.choice(self._kinds())
            self.strikes.append(strike.__name__)
            if number not in self.without:
                world.after(moment, self._strike, strike)
        self.kills_at_writes, self.kills_at_calls = (world.chance(0.35 if self.external else 0.06) for _ in range(2))

    def _plan_commit(self):
        if self.world.chance(0.95):
            self.world.after(self.world.between(0.0, 30.0), self._commit)

    def _strike(self, strike):
        if self.keeper is not None:
            doc = self.keeper.state.doc
            job = doc["job"] or {"state": "", "prepare": None}
            self.struck[(strike.__name__.strip("_"), doc["phase"], (job["prepare"] or {}).get("state", ""), job["state"])] += 1
        strike()

    def _kinds(self):
        """Each as often as it stands here. A few end the run, most must not."""
        common = [self._end, self._extend, self._mute, self._mute, self._mute, self._full, self._full, self._clock, self._clock, self._signal, self._renewals, self._lossy, self._lossy]
        if self.external:
            return common + 3 * [self.pods.lose_head, self.pods.lose_worker, self._leaving] + 6 * [self._kill]
        return common + [self._lose_node, self._lose_node, self._lose_head_node, self._lose_head_node, self._kill]

    def _letter(self, what, body):
        if self.keeper is not None:
            self.world.say("POST /v1/%s %s" % (what, body))
            self.keeper.mail._letters.append(Letter(what, body))
            self.bell.ring()
            if what == "end":
                self.keeper.mail.abort()

    def _commit(self):
        if self.keeper is None:
            self.world.after(1.0, self._commit)
            return
        self.world.say("the client commits")
        try:
            with open(os.path.join(self.run_dir, "commit"), "w") as f:
                json.dump({}, f)
            self.committed = True
        except OSError:
            pass
        self.bell.ring()

    committed = kills_at_writes = kills_at_calls = False

    def _end(self):
        self.asked.append((self.world.now, "down"))
        self.world.fault("a client ends the cluster")
        now, again = self.world.chance(0.2), self.world.chance(0.3)
        self.now = self.now or now or again  # an end without grace
        self._letter("end", {"cause": "down", "now": now})
        if again:
            self.world.after(self.world.between(0.0, 5.0), self._letter, "end", {"cause": "down", "now": True})

    def _extend(self):
        self.extended = True
        self._letter("extend", {"max": self.world.random.choice([10, 60])})

    def _renewals(self):
        self._letter("disconnect", {"after": 20})
        self.asked.append((self.world.now, "disconnected"))
        for n in range(self.world.random.randint(0, 8)):
            self.world.after(5.0 * n, self._letter, "renew", {})

    def _leaving(self):
        self.world.fault("the head's pod is going to be taken away")
        seconds = self.world.between(2.0, 30.0)
        self._letter("leaving", {"seconds": seconds, "by": "preemption"})
        self.world.after(seconds, self.pods.lose_head)

    def _mute(self):
        seconds = self.world.between(0.5, 40.0)
        self.mutes += 1  # how often the dashboard hung
        self.world.fault("the dashboard hangs for %.1f s" % seconds)
        for head in self.heads.values():
            head.mute_until = self.world.now + seconds

    def _lossy(self):
        self.loss_ever, self.loss = True, self.world.random.choice([0.02, 0.1, 0.3])
        self.world.fault("the network loses %d %% of requests and answers" % (100 * self.loss))
        self.world.after(self.world.between(2.0, 40.0), setattr, self, "loss", 0.0)

    def _full(self):
        seconds = self.world.between(0.5, 30.0)
        self.full = True
        self.world.fault("the disk is full for %.1f s" % seconds)
        self.world.disk_full_until = self.world.now + seconds

    def _clock(self):
        seconds = self.world.random.choice([-3600.0, -5.0, 5.0, 3600.0])
        self.world.fault("the wall clock jumps by %d s" % seconds)
        self.world.jump += seconds

    def _signal(self):
        number = self.world.random.choice([signal.SIGTERM, signal.SIGINT])
        self.asked.append((self.world.now, "interrupted"))
        self.world.fault("the keeper gets %s" % signal.Signals(number).name)
        if self.bell:
            self.bell.signal(number)

    def _kill(self):
        if self.process is not None:
            self.kill(self.process)

    def kill(self, process):
        """Somebody does that to the keeper."""
        self.world.kill(process)

    def _lose_node(self):
        alive = [n for n in self.nodes_by_pid.values() if n.alive]
        if alive:
            node = self.world.random.choice(alive)
            code = self.world.random.choice([1, -9])
            self.world.fault("the supervisor of %s ends by itself" % node.member.name)
            node.end(code)

    def _lose_head_node(self):
        for node in list(self.nodes_by_pid.values()):
            if node.alive and node.member.head:
                self.world.fault("Ray ends on the head")
                node.end(1)

    def _keepers(self):
        """The keeper, and those that follow one that was killed where somebody starts it again."""
        for number in range(KEEPERS):
            try:
                self._one()
            except Killed:
                self._buried()
                if not self.external:
                    self._gone_without_keeper()
                    return
                if os.path.exists(os.path.join(self.run_dir, "result.json")):
                    break
                self.world.run_on(self.world.between(0.5, 40.0))
                if self.world.chance(0.4):
                    self._another_pod(number + 2)
                continue
            break
        else:
            return  # the pod's restarts are not ours
        self._ended()

    def _one(self):
        """One keeper's life, as run/keeper.py wires it."""
        world = self.world
        process = self.process = world.main.process = Process(world, "keeper")
        self._orders_into(self.run_dir)  # kubernetes/pod.py, prepare: the end removes the token, and one that was killed after that starts again
        if self.kills_at_writes and world.chance(0.8):
            process.kill_at_write = (world.random.randint(1, 40), world.chance(0.5))
        bell = process.bell = Bell(world)
        log = world.say
        earlier = entry.predecessor(self.run_dir)
        state = process.state = State(self.orders, self.run_dir, log)
        kind = SimExternal if self.external else SimSpawned
        nodes = process.nodes = kind(self.orders, self.run_dir, bell, log)
        nodes.life, nodes.process = self, process
        failure = entry.start(nodes, self.orders, self.run_dir)
        keeper = process.keeper = Keeper(self.orders, self.run_dir, nodes, bell, state, log, earlier, None)
        if failure:
            raise Violation("the nodes were not started: %s" % failure)
        if self.external:
            state.handed_over = True
        keeper.take_over()
        if self.external:  # the API is served from now on
            self._copy_record(state)
        state.change(keeper={"url": "http://keeper", "host": "here", "pid": 1, "startTime": 1})
        keeper.run()
        self.process = None

    def _copy_record(self, state):
        """The record's pod follows the document; it is a moment behind."""
        if self.process is None or state is not self.process.state:
            return
        self.world.after(self.world.between(0.01, 0.45), self._copied, state, state.doc["revision"], state.json())  # twice within TOLD

    def _copied(self, state, revision, document):
        if self.process is not None and state is self.process.state and not self.process.killed:
            self.record, self.recorded = document, revision
            state.wait(revision, 0, "record", True)
            self._copy_record(state)

    def _buried(self):
        """The keeper was killed: what it had open is closed."""
        self.world.say("the keeper is dead")
        self.process = None
        self.world.main.process = Process(self.world, "main")
        if not self.external:
            for node in list(self.nodes_by_pid.values()):
                node.asked()

    def _another_pod(self, number):
        """The keeper's pod is made anew: its directory has the orders, and the document that the record had."""
        self.world.say("another pod for the keeper")
        self.run_dir = os.path.join(self.dir, "run-%d" % number)
        os.makedirs(self.run_dir)
        self._orders_into(self.run_dir)
        if self.record:
            with open(os.path.join(self.run_dir, "state.json"), "wb") as f:
                f.write(self.record)
        if self.committed and self.world.chance(0.5):  # a client that still watches sends it again
            self.world.after(self.world.between(0.0, 10.0), self._commit)

    # What is checked at the end.

    def _gone_without_keeper(self):
        """A local cluster whose keeper was killed ends by itself."""
        self.world.run_on(AFTER)
        left = [n.member.name for n in self.nodes_by_pid.values() if n.alive]
        if left:
            raise Violation("the keeper was killed, and %s live on" % left)
        if self.results > 1:
            raise Violation("%d results" % self.results)

    def _ended(self):
        left = [n.member.name for n in self.nodes_by_pid.values() if n.alive]
        if left:
            raise Violation("the keeper has ended, and %s live on" % left)
        directories = [n.directory for n in self.nodes_by_pid.values() if os.path.isdir(n.directory)]
        if directories:
            raise Violation("node directories are left: %s" % directories)
        path = os.path.join(self.run_dir, "result.json")
        if not os.path.exists(path):
            if self.world.disk_full_until >= self.world.now - 1:
                return  # said in keeper.log; who concludes the run does it from state.json
            raise Violation("there is no result")
        with open(path) as f:
            doc = json.load(f)
        self.world.say("result: %s" % json.dumps(doc["exit"]))
        self.cause = doc["exit"]["cause"]
        if self.results != 1:
            raise Violation("%d results" % self.results)
        self._check_exit(doc)
        self._check_attempts(doc)
        self._check_output(doc)

    def _own(self, submission_id):
        """The processes that ran under a submission id, in the order of their starts."""
        return [d for d in self.drivers if d.submission_id == submission_id]

    def _check_exit(self, doc):
        """The code is the driver's own, and a driver that could end undisturbed has the last word."""
        exit, job = doc["exit"], doc["job"]
        if "the keeper failed" in exit["message"]:
            raise Violation(exit["message"])
        if job is None:
            return
        ran = self._own(job["submissionId"])
        if exit["origin"] == "driver":
            code = ran[-1].ended_with if ran else None
            if code is None or (128 - code if code < 0 else code) != exit["code"]:
                raise Violation("the exit code is %s, but the driver ended with %s" % (exit["code"], code))
        if exit["cause"] == "submit-failed" and ran:
            raise Violation("the end is %s, but the driver ran: %s" % (exit["cause"], exit["message"]))
        if exit["cause"] == "succeeded" and not (ran and ran[-1].ended_with == 0):
            raise Violation("succeeded without a driver that did")
        if not self.world.faults and exit["origin"] == "rayctl" and not self.asked and exit["cause"] not in ("max", "total", "abandoned", "time-limit"):
            raise Violation("nothing went wrong, but the end is %s: %s" % (exit["cause"], exit["message"]))
        last = ran[-1] if ran else None
        self._check_limits(exit, last)
        if last and last.by_itself and last.ended_with == 0 and exit["cause"] != "succeeded" and last.head.alive and last.ended_at + 1.0 < (self.ends_at or 0.0) \
                and exit["cause"] in ("lost", "preempted", "submit-failed", "start-failed"):
            raise Violation("the driver succeeded and its head lives, but the end is %s: %s" % (exit["cause"], exit["message"]))
        if last and last.by_itself and last.head.alive and exit["cause"] in ("down", "interrupted") and all(moment > last.ended_at + 15.0 for moment, cause in self.asked if cause == exit["cause"]) \
                and not self.world.killings and last.ended_with == 0 and not self.loss_ever and not self.mutes:
            raise Violation("the driver succeeded long before the end %s was asked for" % exit["cause"])
        if exit["cause"] in ("down", "interrupted", "disconnected") and not (self.full and self.world.killings) and not any(cause == exit["cause"] for _, cause in self.asked):
            raise Violation("nobody asked for the end %s" % exit["cause"])

    def _check_limits(self, exit, last):
        """lifetime.max and job.grace, where nothing else was in the way."""
        quiet = not (self.mutes or self.loss_ever or self.killings_or_losses())
        limit, grace = self.orders["lifetime"]["max"], self.grace
        for driver in self.drivers:
            if limit and quiet and not self.extended and driver.seconds > limit + grace + 30.0:
                raise Violation("%s ran for %.0f s, lifetime.max is %d" % (driver.submission_id, driver.seconds, limit))
        if last and quiet and not self.now and exit["cause"] in ("down", "max", "total") and grace > 1.5 and last.obeys <= 1.0 and last.ended_with in (None, -9) \
                and len([cause for _, cause in self.asked]) <= 1:
            raise Violation("the driver had no grace: it ended with %s" % last.ended_with)

    def killings_or_losses(self):
        """Whether something went wrong that a driver does not survive, or the keeper."""
        return self.world.killings or any(words in text for _, text in self.world.faults for words in ("ends by itself", "Ray ends", "container ends", "taken away", "fails", "pod of"))

    def _check_attempts(self, doc):
        """Counted one by one, each with a submission of its own, and not more than job.restarts allows."""
        attempts = doc["attempts"]
        if doc["job"] is None:
            return
        if [a["attempt"] for a in attempts] != list(range(1, len(attempts) + 1)):
            raise Violation("attempts are %s" % [a["attempt"] for a in attempts])
        allowed = self.orders["job"]["restarts"]
        for cause, kind in RESTARTS.items():
            used = sum(a["cause"] == cause for a in attempts[:-1])
            if allowed[kind] >= 0 and used > allowed[kind]:
                raise Violation("%d restarts of %s, allowed are %d" % (used, kind, allowed[kind]))
        for attempt in attempts:
            ran = self._own(attempt["submissionId"]) if attempt["submissionId"] else []
            if len(ran) > 1 and not self.full:  # a keeper that could not write, and was killed, is followed as if it had not been
                raise Violation("attempt %d ran %d times" % (attempt["attempt"], len(ran)))
        if not attempts or attempts[-1]["attempt"] < doc["attempt"]:
            return  # the last one had not submitted anything when its keeper was killed
        last = attempts[-1]
        if doc["exit"]["cause"] == "driver-failed" and sum(a["cause"] == "driver-failed" for a in attempts[:-1]) < allowed["driver"]:
            raise Violation("a failed driver had restarts left")
        if last["cause"] != doc["exit"]["cause"] and self.by_keeper:
            raise Violation("the last attempt's cause is %s, the end's %s" % (last["cause"], doc["exit"]["cause"]))

    def may_have_lost(self, written, have):
        """Whether an attempt before the last one may have lost the end of its output."""
        return False

    def _check_output(self, doc):
        """Every byte once and in order, or a noted gap. A head that was lost has taken with it what nobody had read (external)."""
        if doc["job"] is None:
            return
        for attempt in doc["attempts"]:
            driver = attempt["submissionId"]
            if not driver:
                continue
            last = attempt["attempt"] == doc["attempt"]
            before = b"".join(d.written for d in self._own(rayjob.prepare_id(driver))[-1:])
            written = before + b"".join(d.written for d in self._own(driver))
            path = os.path.join(self.run_dir, "driver.log" if last else "driver-%d.log" % attempt["attempt"])
            have = b""
            if os.path.exists(path):
                with open(path, "rb") as f:
                    have = f.read()
            if have == written or self.full and self.world.killings:
                continue
            if last and doc["log"]["missing"]:
                continue
            if self.external and (not last or written.startswith(have) or have == b"") or not last and self.may_have_lost(written, have):
                continue
            if not self._own(driver) and not before and b"line" not in have:
                continue  # why the driver did not start
            raise Violation("attempt %d wrote %d bytes, its log has %d (%s)" % (attempt["attempt"], len(written), len(have), path))


class ExternalLife(Life):
    """KubeRay starts the nodes."""

    external = True
