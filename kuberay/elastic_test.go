package kuberay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestElastic is about groups that KubeRay's autoscaler lets grow; what it does in a good run is in the conformance suite, too, which runs with both forms of
// the operator.
func TestElastic(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	b.level(t, "restricted")
	t.Run("Example", b.elasticExample)
	t.Run("Scale", b.scales)
	t.Run("Apart", b.groupsApart)
}

// elasticExample: nodes come for three tasks and go after them, and the receipt counts them for as long as they were there. All of it in a namespace with the
// profile "restricted", and without a client from the launch to the end.
func (b bed) elasticExample(t *testing.T) {
	pace.Parallel(t)
	u := newUser(t, b.kubeconfig)
	b.nothingLeft(t, "example")
	u.succeeds(t, "example", "run", "--detach", "-f", example(t, "kuberay-elastic.yaml"), "--name", "example")
	kubetest.Await(t, "the end", func(context.Context) error {
		if left := b.allocated(t, "example"); len(left) > 0 {
			return fmt.Errorf("allocated: %v", left)
		}
		return nil
	})
	a := u.does(t, "logs", "--launcher", "kuberay", "example")
	if want := regexp.MustCompile(`(?s)nodes at the start: 2\n.*nodes that did the work: 3\n.*nodes at the end: 2\n\z`); a.code != 0 || !want.MatchString(a.out) {
		t.Fatalf("code %d, %q\n%s", a.code, a.out, a.notes)
	}
	r, err := b.l.Result(t.Context(), "example")
	if err != nil {
		t.Fatal(err)
	}
	if r.Exit == nil || r.Exit.Cause != runstate.CauseSucceeded {
		t.Errorf("%+v", r.Exit)
	}
	more := runstate.Of(r.Allocations, runstate.PurposeElastic)
	if main := runstate.Of(r.Allocations, runstate.PurposeMain); len(more) != 2 || len(main) != 1 || main[0].Groups["worker"] != 1 || main[0].Groups["head"] != 1 {
		t.Fatalf("%+v", r.Allocations)
	}
	for _, one := range more {
		if one.Groups["worker"] != 1 || one.Granted == nil || one.Released == nil || !one.Released.After(*one.Granted) {
			t.Errorf("%+v", one)
		}
	}
	usage := launcher.NewReceipt(r).Usage
	if most := 4 * r.Since.Sub(r.Timeline[0].At).Seconds(); usage.Nodes != 4 || usage.NodeSeconds <= 0 || usage.NodeSeconds >= most {
		t.Errorf("%+v, of at most %.0f s", usage, most)
	}
}

// scales: `rayctl scale` changes the RayCluster, within the bounds of the file. KubeRay and its autoscaler follow, and nothing that is used goes.
func (b bed) scales(t *testing.T) {
	pace.Parallel(t)
	u := newUser(t, b.kubeconfig)
	b.nothingLeft(t, "scaled")
	// No node has what a node of the group big asks for: the one of its replicas waits.
	sized := func(idle, sizes string) []string {
		return []string{"up", "--launcher", "kuberay", "--name", "scaled", "--image", "rayproject/ray:2.60.0", "--set", "head.cpus=0.2", "--set", "head.memory=2Gi",
			"--set", "scaling.idle=" + idle, "--set", "workers=[{name: w, " + sizes + ", cpus: 0.2, memory: 2Gi}, {name: fixed, replicas: 0}, " +
				"{name: big, minReplicas: 0, replicas: 1, maxReplicas: 2, cpus: 0.2, memory: 2Gi, kuberay: {limits: {rayctl.test/none: 1}}}]"}
	}
	u.succeeds(t, "", sized("10m", "minReplicas: 0, maxReplicas: 3")...)
	status := func() (st launcher.Status) {
		t.Helper()
		if a := u.does(t, "status", "--launcher", "kuberay", "scaled", "-o", "json"); a.code != 0 || json.Unmarshal([]byte(a.out), &st) != nil {
			t.Fatalf("code %d, %s\n%s", a.code, a.out, a.notes)
		}
		return st
	}
	kubetest.Await(t, "the pod that waits", func(context.Context) error {
		if more := runstate.Of(status().Allocations, runstate.PurposeElastic); len(more) != 1 || more[0].State != runstate.AllocationQueued || !strings.Contains(more[0].Message, "no node has room: ") {
			return fmt.Errorf("allocations: %+v", more)
		}
		return nil
	})
	if a := u.does(t, sized("3s", "minReplicas: 0, maxReplicas: 3")...); a.code != 0 || !strings.Contains(a.notes, "scaled: changed scaling.idle: 10m -> 3s") {
		t.Errorf("code %d\n%s", a.code, a.notes)
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if a := u.does(t, append([]string{"scale", "--launcher", "kuberay", "scaled"}, args...)...); a.code != 65 || !strings.Contains(a.notes, want) {
			t.Errorf("scale %q: code %d, want %q\n%s", args, a.code, want, a.notes)
		}
	}
	refused("there is no group x; there is head, w, fixed", "x=1")
	refused("group fixed is not elastic", "fixed=1")
	refused("group head is not elastic", "head=2")
	refused("group w can have 0 to 3 nodes, and not 4", "w=4")
	refused("the maximum of group w can be 1 to 3 nodes, and not 5", "w=1:5")
	refused("group fixed is not elastic", "w=3", "fixed=1") // none of it
	u.succeeds(t, "w: 1 node, at least 1 and at most 2", "scale", "--launcher", "kuberay", "scaled", "w=1:2", "big=0:1")
	if g := status().Groups; !slices.ContainsFunc(g, func(g runstate.Group) bool { return g.Name == "w" && g.Wanted == 1 && g.Min == 1 && g.Max == 2 }) {
		t.Errorf("the sizes in force: %+v", g)
	}
	awaitNodes := func(n int) {
		t.Helper()
		kubetest.Await(t, fmt.Sprintf("%d workers", n), func(context.Context) error {
			if have := b.scheduled(t, "scaled") - 1; have != n {
				return fmt.Errorf("there are %d", have)
			}
			return nil
		})
	}
	awaitNodes(1)
	u.succeeds(t, "w: 2 nodes, at least 2 and at most 2", "scale", "--launcher", "kuberay", "scaled", "w=2")
	awaitNodes(2)
	u.succeeds(t, "", "submit", "--launcher", "kuberay", "-c", "scaled", "--detach", "--", "python", "-c", holdingDriver)
	b.awaitFile(t, "scaled", "held", "a node")
	refused("group w has 2 nodes: KubeRay's autoscaler would end those above 1", "w=0:1")
	u.succeeds(t, "at least 0 and at most 2", "scale", "--launcher", "kuberay", "scaled", "w=0")
	awaitNodes(1) // nothing uses the other one
	b.release(t, "scaled")
	b.awaitFile(t, "scaled", "kept", "True")
	awaitNodes(0)
	u.succeeds(t, "w: 0 nodes, at least 0 and at most 0", "scale", "--launcher", "kuberay", "scaled", "w=0:0")
	if a := u.does(t, sized("3s", "minReplicas: 1, maxReplicas: 4")...); a.code != 65 || !strings.Contains(a.notes, "the maximum of group w can be 1 to 3 nodes, and not 4") {
		t.Errorf("code %d\n%s", a.code, a.notes)
	}
	if a := u.does(t, sized("3s", "minReplicas: 1, maxReplicas: 2")...); a.code != 0 || !strings.Contains(a.notes, "scaled: changed workers.w.minReplicas: 0 -> 1") {
		t.Errorf("code %d\n%s", a.code, a.notes)
	}
	awaitNodes(1)
	u.succeeds(t, "up would change nothing", append(sized("3s", "minReplicas: 1, maxReplicas: 2"), "--dry-run")...)
	u.succeeds(t, "w: 3 nodes, at least 3 and at most 3", "scale", "--launcher", "kuberay", "scaled", "w=3") // the bounds are the launch's
	if a := u.does(t, sized("3s", "minReplicas: 0, maxReplicas: 3")...); a.code != 0 || !strings.Contains(a.notes, "scaled: changed workers.w.maxReplicas: 2 -> 3") {
		t.Errorf("code %d\n%s", a.code, a.notes)
	}
	awaitNodes(0)
	limited := *u
	limited.env = append(slices.Clone(u.env), "KUBECONFIG="+b.LimitedKubeconfig(t, b.namespace,
		rbacv1.PolicyRule{APIGroups: []string{"ray.io"}, Resources: []string{"rayclusters"}, Verbs: []string{"get"}}, permit("secrets", "get")))
	if a := limited.does(t, "scale", "--launcher", "kuberay", "scaled", "w=1"); a.code != 77 || !strings.Contains(a.notes, "patch rayclusters.ray.io") {
		t.Errorf("code %d\n%s", a.code, a.notes)
	}
	const unmet = "tasks or actors wait for a node with 1000 CPUs, and no group has such nodes"
	last := status()
	if n := len(slices.DeleteFunc(last.Timeline, func(e runstate.Event) bool { return e.Message != unmet })); n != 1 {
		t.Errorf("%d notes %q", n, unmet)
	}
	if more := runstate.Of(last.Allocations, runstate.PurposeElastic); !slices.ContainsFunc(more, func(a runstate.Allocation) bool { return a.State == runstate.AllocationQueued }) {
		t.Errorf("no pod waits at the end: %+v", more)
	}
	u.succeeds(t, "", "down", "--launcher", "kuberay", "scaled")
	if left := b.left(t, "scaled"); len(left) > 0 {
		t.Errorf("left after `down`: %v", left)
	}
}

// holdingDriver has an actor that holds a node until bed.release, and from its beginning to the cluster's end a task that no node can take.
const holdingDriver = `
import os, ray, time
ray.init(logging_level=40)
huge = ray.remote(num_cpus=1000)(int).remote()
@ray.remote(num_cpus=1, max_restarts=0)
class Holder:
    def pid(self):
        return os.getpid()
def say(name, text):
    with open("/tmp/" + name, "w") as f:
        f.write(text)
holder = Holder.remote()
pid = ray.get(holder.pid.remote())
say("held", "a node")
while not os.path.exists("/tmp/go"):
    time.sleep(0.2)
try:
    say("kept", str(ray.get(holder.pid.remote()) == pid))
except ray.exceptions.RayError as error:
    say("kept", str(error))
ray.kill(holder)
ray.get(huge)
`

// awaitFile waits until a file in the head's /tmp is there, and checks what it says.
func (b bed) awaitFile(t *testing.T, id launcher.ID, name, want string) {
	t.Helper()
	var out bytes.Buffer
	kubetest.Await(t, name, func(ctx context.Context) error {
		out.Reset()
		code, err := b.l.Exec(ctx, id, launcher.ExecRequest{Command: []string{"cat", "/tmp/" + name}, Stdout: &out, Stderr: io.Discard})
		if err == nil && (code != 0 || out.Len() == 0) {
			err = fmt.Errorf("code %d", code)
		}
		return err
	})
	if out.String() != want {
		t.Errorf("%s: %q, want %q", name, out.String(), want)
	}
}

func (b bed) groupsApart(t *testing.T) {
	pace.Parallel(t)
	b.wantApart(t)
}
