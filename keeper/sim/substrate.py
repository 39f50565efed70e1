"""Models of who starts the nodes: this machine (mode spawn), and somebody else (mode external, as KubeRay does).

What they copy: a supervisor ends when its stdin is closed, with all processes of its node (docs/keeper.md, "Supervisors"); a worker waits until the head has told where
it listens; a pod's container that ends is started again under the same name and gets another session of Ray; a Service's name leads to the present head alone."""

import os
import shutil

from rayctl_keeper.run.nodes.external import External
from rayctl_keeper.run.nodes.spawned import Spawned
from sim.ray import Head

WORTH = "Ray did not start: Address already in use"
FATAL = "setup exited with code 3"


class Stdin:
    def __init__(self, node):
        self._node = node

    def close(self):
        self._node.asked()


class Node:
    """A supervisor and its Ray node."""

    def __init__(self, life, nodes, member, pid):
        self.life, self.world, self.member, self.pid = life, life.world, member, pid
        self.nodes, self.round, self.stdin = nodes, nodes.round, Stdin(self)
        self.alive, self.head, self.failed, self._asked = True, None, "", False
        self.directory = os.path.join(life.dir, "r%08x" % pid)
        os.makedirs(os.path.join(self.directory, "t", "session_2", "logs"))
        if life.start_fails(member):
            self.world.after(self.world.between(0.2, 4.0), self._fail)
        elif member.head:
            self.world.after(self.world.between(0.5, 12.0), self._head_up)
        else:
            self._await_head()

    def _fail(self):
        if self.alive:
            self.failed = self.world.random.choice([WORTH, FATAL])
            self.world.fault("the start of %s fails: %s" % (self.member.name, self.failed))
            self.end(1)

    def _head_up(self):
        if self.alive:
            self.head = Head(self.world, self.life, "session_%d" % self.pid, self.life.grace, self.directory)
            self.life.heads["http://head-%d" % self.pid] = self.head
            self.world.after(self.world.between(0.0, 3.0), self.head.join, self.member.name, self.member.group["name"], True)

    def _await_head(self):
        if not self.alive:
            return
        head = self.life.head_of(self.nodes, self.round)
        if head is not None and head.answers:
            self.world.after(self.world.between(0.3, 6.0), self._join, head)
        else:
            self.world.after(0.5, self._await_head)

    def _join(self, head):
        if self.alive and head.alive:
            self.head_joined = head
            head.join(self.member.name, self.member.group["name"], False)

    def asked(self):
        """Its stdin is closed."""
        if not self._asked:
            self._asked = True
            self.world.after(self.world.between(0.01, 1.5), self.end, 0)

    def end(self, code):
        """The supervisor ends, and all of its node with it. It removes its directory unless it was killed."""
        if not self.alive:
            return
        self.alive = False
        self.world.say("the supervisor of %s ends with %d" % (self.member.name, code))
        if self.head:
            self.head.die()
        else:
            head = self.life.head_of(self.nodes, self.round)
            if head is not None:
                self.world.after(self.world.between(0.1, 8.0), head.lose, self.member.name)
        if code >= 0:
            if self.head:
                self.life.save_rest(self)
            shutil.rmtree(self.directory, ignore_errors=True)
        self.life.child_ended(self.nodes.process, self.pid, code)


class SimSpawned(Spawned):
    """The keeper's own class, with the model's processes instead of the machine's."""

    life = process = None

    def choose_addresses(self):
        self.token, self.gcs, self.dashboard = "token", "", ""
        return {}

    def token_file(self):
        return "ray-token.%d" % self.round

    def find_head(self):
        if not self.dashboard:
            for url, head in self.life.heads.items():
                node = self.life.nodes_by_pid.get(int(url.rpartition("-")[2]))
                if node and node.round == self.round and node.nodes is self and head.answers:
                    self.dashboard, self.gcs, self.client_port = url, url[7:] + ":1", 10001
        return bool(self.dashboard)

    def launch(self, argv, name, env, stdin, stdout=None, stderr=None):
        self.life.pid += 1
        member = next(m for m in self.all() if m.name == name)
        node = self.life.nodes_by_pid[self.life.pid] = Node(self.life, self, member, self.life.pid)
        self.children[self.life.pid] = (node, name)
        return node

    def _node(self, member):
        return next((n for n in reversed(list(self.life.nodes_by_pid.values())) if n.member is member and n.nodes is self), None)

    def report(self, member):
        node = self._node(member)
        if node is None or node.round != self.round:
            return {}
        state = "failed" if node.failed else "running" if node.alive else "ended"
        return {"state": state, "message": node.failed, "directory": node.directory, "round": self.round, "serial": member.serial, "pid": node.pid, "host": "here"}

    def end_here(self):
        for node in list(self.life.nodes_by_pid.values()):
            if node.nodes is self:
                node.end(-9)
                shutil.rmtree(node.directory, ignore_errors=True)
        return set(), self.life.reap()

    def gpus(self, _member):
        return {}


class Pods:
    """KubeRay's part of an external cluster: the head's pod and the workers' pods, which come and go whatever the keeper does."""

    def __init__(self, life):
        self.life, self.world = life, life.world
        self.count = 0
        self.head = None
        self.ended = False
        self.world.after(self.world.between(0.2, 20.0), self.start_head)

    def start_head(self):
        if self.ended or self.head is not None and self.head.alive:
            return
        self.count += 1
        self.head = self.life.heads["http://head"] = Head(self.world, self.life, "session_%d" % self.count, self.life.grace, None)
        self.world.after(self.world.between(0.5, 8.0), self.head.join, "head", "head", True)
        for group in self.life.orders["groups"][1:]:
            for number in range(group["count"]):
                self.world.after(self.world.between(2.0, 30.0), self.join, self.head, "%s-%d" % (group["name"], number), group["name"])

    def join(self, head, name, group):
        if not self.ended and head is self.head and head.alive and not any(r["node_name"] == name and r["state"] == "ALIVE" for r in head.rows):
            head.join(name, group, False)

    def lose_head(self):
        if self.head is not None and self.head.alive:
            self.world.fault("the head's container ends")
            self.head.die()
            self.world.after(self.world.between(0.5, 60.0), self.start_head)

    def lose_worker(self):
        rows = [r for r in (self.head.rows if self.head else []) if not r["is_head_node"] and r["state"] == "ALIVE"]
        if rows:
            row = self.world.random.choice(rows)
            self.world.fault("the pod of %s ends" % row["node_name"])
            self.world.after(self.world.between(0.1, 10.0), self.head.lose, row["node_name"])
            self.world.after(self.world.between(12.0, 40.0), self.join, self.head, row["node_name"], row["labels"]["ray.io/node-group"])

    def end(self):
        """The RayCluster is deleted."""
        self.ended = True
        if self.head is not None:
            self.head.die()


class SimExternal(External):
    life = process = None

    def start(self):
        super().start()
        self.token = "token"
