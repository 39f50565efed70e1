package kuberay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestSidecars: a proxy that admission adds to pods does not keep a cluster that has ended.
func TestSidecars(t *testing.T) {
	pace.Parallel(t)
	t.Run("Stubborn", func(t *testing.T) { // it is added to all pods, whatever their annotations are, and the client that launched watches
		b := newBed(t)
		b.inject(t, false, false)
		r := b.begin(t, b.l, named("stubborn", waitingDriver+"; exit 3"))
		r.printed(t, "begun")
		var out bytes.Buffer
		if code, err := b.l.Exec(t.Context(), r.id, launcher.ExecRequest{Command: []string{"sh", "-c", "ray --version && touch /tmp/go"}, Stdout: &out, Stderr: &out}); err != nil || code != 0 {
			t.Errorf("exec in Ray's container: code %d, %v, %s", code, err, out.String())
		}
		r.wantEnd(t, "driver-failed", 3, "begun\ndone\n")
		b.wantContainers(t, r.id, "record", 2)
		if s, err := b.l.Result(t.Context(), r.id); err != nil || s.Exit.Code != 3 {
			t.Errorf("the result: %+v, %v", s, err)
		}
	})
	t.Run("Unwatched", unwatchedSidecars)
	t.Run("Quits", func(t *testing.T) { // nobody watches: keeper and record ask both of them to end, and Kubernetes does the rest
		b := newBed(t)
		b.injectBeside(t, false, func(pod corev1.Pod) bool { return pod.Labels["ray.io/cluster"] == "" }, pilotAgent, linkerd)
		b.endsAlone(t, named("quits", "echo unseen"), 3)
		kubetest.Await(t, "the end of the record's Job", func(context.Context) error {
			if j := b.job(t, "quits-record"); j.Status.Succeeded != 1 {
				return fmt.Errorf("%+v", j.Status)
			}
			return nil
		})
	})
	t.Run("Account", func(t *testing.T) { // it never ends, and nobody watches: the keeper deletes its own Job
		b := newBed(t)
		b.inject(t, false, false)
		s := named("account", "echo unseen")
		section := &kuberayspec.Section{KeeperServiceAccountName: b.account(t, "ends-itself", rbacv1.PolicyRule{
			APIGroups: []string{"batch"}, Resources: []string{"jobs"}, ResourceNames: []string{s.Name}, Verbs: []string{"delete"},
		})}
		s.Sections = kuberayspec.In(section)
		if warnings := b.endsAlone(t, s, 2); len(warnings) > 0 {
			t.Errorf("the launch warns: %q", warnings)
		}
		checks := findings(t, b.l, s)
		if c := checks["keeper's account"]; !c.OK || c.Detail != "ends-itself may not list pods, watch pods, list nodes, watch nodes, and the keeper does without" {
			t.Errorf("doctor, of an account for Jobs only: %+v", c)
		}
		if c := checks["sidecars"]; !c.OK || !strings.HasPrefix(c.Detail, "the keeper deletes its Job") {
			t.Errorf("doctor, of the proxy with such an account: %+v", c)
		}
		section.KeeperServiceAccountName = b.account(t, "no-use")
		checks = findings(t, b.l, s)
		fails(t, checks, "keeper's account", "no-use may do nothing that the keeper does with it: delete jobs.batch, list pods")
		fails(t, checks, "sidecars", "(mesh-proxy)")
		section.KeeperServiceAccountName = "nosuch"
		fails(t, findings(t, b.l, s), "pods and DNS", `serviceaccount "nosuch" not found create it, or correct kuberay.keeperServiceAccountName`)
	})
	t.Run("Native", func(t *testing.T) { // Kubernetes ends it with the last container, which nobody has to watch
		b := newBed(t)
		b.inject(t, true, false)
		r := b.begin(t, b.l, named("native", "echo beside"))
		r.wantEnd(t, "succeeded", 0, "beside\n")
		b.wantContainers(t, r.id, "record", 1)
	})
	t.Run("Asks", func(t *testing.T) { // a mesh that asks leaves the keeper's and the record's pod out
		b := newBed(t)
		b.inject(t, false, true)
		r := b.begin(t, b.l, named("asks", "echo within"))
		r.wantEnd(t, "succeeded", 0, "within\n")
		b.wantContainers(t, r.id, "record", 1)
	})
}

// inject lets the API server add the proxy to each pod of the namespace by a mutating webhook: as the first container, as Istio does it with
// holdApplicationUntilProxyStarts; to pods labelled for it as a native sidecar. asks: it leaves out pods that opt out as Istio documents.
func (b bed) inject(t *testing.T, asNative, asks bool) {
	t.Helper()
	program := stubborn
	if asNative {
		program = native
	}
	b.injectBeside(t, asNative, func(pod corev1.Pod) bool { return !asks || pod.Labels["sidecar.istio.io/inject"] != "false" }, program)
}

// wantContainers checks how many containers a pod of a role has.
func (b bed) wantContainers(t *testing.T, id launcher.ID, role string, want int) {
	t.Helper()
	pods, err := b.Core.CoreV1().Pods(b.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "rayctl.io/role=" + role + ",rayctl.io/name=" + string(id)})
	if err != nil || len(pods.Items) == 0 {
		t.Errorf("the pods of the %s: %d, %v", role, len(pods.Items), err)
		return
	}
	if got := len(pods.Items[0].Spec.Containers); got != want {
		t.Errorf("the pod of the %s has %d containers, want %d", role, got, want)
	}
}

// unwatchedSidecars: nobody watches, and the keepers have ended. `down` names what is left of a cluster and deletes it, gc does it for all, and without either the
// deadline of the Job does; the results stay.
func unwatchedSidecars(t *testing.T) {
	b := newBed(t)
	b.inject(t, false, false)
	const unwatched, collected, bound = launcher.ID("unwatched"), launcher.ID("collected"), launcher.ID("bound")
	s, warned := named(string(unwatched), "echo unseen"), 0
	warn := func(text string) {
		if strings.HasPrefix(text, "the keeper's pod has other containers (mesh-proxy): if they do not end by themselves, the cluster and its GPUs stay") {
			warned++
		}
	}
	for _, one := range []*spec.ClusterSpec{s, headless(string(collected)), headless(string(bound))} {
		b.nothingLeft(t, launcher.ID(one.Name))
		if _, err := b.l.Launch(t.Context(), one, launcher.Payload{Warn: warn}); err != nil {
			t.Fatal(err)
		}
	}
	if warned != 3 {
		t.Errorf("%d of 3 launches warn of the container that does not end", warned)
	}
	for _, id := range []launcher.ID{collected, bound} {
		b.keeperSays(t, id, func(ctx context.Context, k *keeper.Client) (*runstate.State, error) {
			return k.End(ctx, keeper.End{Cause: runstate.CauseDown})
		})
	}
	found := func(names ...launcher.ID) error {
		all, err := b.l.Reconcile(t.Context(), launcher.Scope{DryRun: true})
		got := map[launcher.ID]string{}
		for _, c := range all {
			got[launcher.ID(c.Name)] = c.What + ": " + c.Why
		}
		for _, name := range names {
			if got[name] != "job: another container in the keeper's pod keeps it alive" {
				err = errors.Join(err, fmt.Errorf("%s: %q", name, got[name]))
			}
		}
		if len(got) != len(names) {
			err = errors.Join(err, fmt.Errorf("found %v", got))
		}
		return err
	}
	kubetest.Await(t, "gc to find the Jobs that live on", func(context.Context) error { return found(unwatched, collected, bound) })
	all, err := b.l.List(t.Context(), launcher.Selector{Names: []string{string(unwatched)}})
	if err != nil || len(all) != 1 || all[0].Phase != runstate.Draining || !strings.Contains(all[0].Reason.Message, "have not: mesh-proxy") {
		t.Errorf("the status does not name the container that still runs: %+v, %v", all, err)
	}
	if err := b.l.Terminate(t.Context(), unwatched, launcher.End{Cause: "down"}); err != nil {
		t.Fatal(err)
	}
	if err := found(collected, bound); err != nil {
		t.Error(err)
	}
	// Its own is a year: the file has no limits.
	if _, err := b.Core.BatchV1().Jobs(b.namespace).Patch(t.Context(), string(bound), types.MergePatchType, []byte(`{"spec": {"activeDeadlineSeconds": 1}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	b.awaitNothing(t, bound)
	if _, err := b.l.Reconcile(t.Context(), launcher.Scope{}); err != nil {
		t.Error(err)
	}
	b.awaitNothing(t, collected)
	if err := found(); err != nil {
		t.Error(err)
	}
	for id, cause := range map[launcher.ID]string{unwatched: "succeeded", collected: runstate.CauseDown, bound: runstate.CauseDown} {
		if s, err := b.l.Result(t.Context(), id); err != nil || s.Exit.Cause != cause {
			t.Errorf("the result of %s: %+v, %v", id, s, err)
		}
	}
}

// pilotAgent ends when it is asked to, as Istio's pilot-agent does (its pilot/cmd/pilot-agent/status/server.go, handleQuit): POST /quitquitquit on port
// 15020, from its own pod only.
const pilotAgent = `"image": "rayproject/ray:2.60.0", "command": ["python3", "-c", "import http.server, os\nclass Agent(http.server.BaseHTTPRequestHandler):\n  def do_POST(self):\n    quits = self.path == '/quitquitquit' and self.client_address[0] == '127.0.0.1'\n    self.send_response(200 if quits else 404)\n    self.end_headers()\n    if quits: os._exit(0)\nhttp.server.HTTPServer(('', 15020), Agent).serve_forever()"]`

// linkerd ends when it is asked to, if its pod has the annotation for that, as Linkerd's proxy does since 2024 (linkerd2 35fb2d6): POST /shutdown on port 4191, from
// its own pod only.
const linkerd = `"image": "rayproject/ray:2.60.0", "env": [{"name": "ENDS", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['config.linkerd.io/proxy-admin-shutdown']"}}}], "command": ["python3", "-c", "import http.server, os\nclass Proxy(http.server.BaseHTTPRequestHandler):\n  def do_POST(self):\n    ends = os.environ['ENDS'] == 'enabled' and self.path == '/shutdown' and self.client_address[0] == '127.0.0.1'\n    self.send_response(200 if ends else 404)\n    self.end_headers()\n    if ends: os._exit(0)\nhttp.server.HTTPServer(('', 4191), Proxy).serve_forever()"]`

// endsAlone launches a cluster that nobody watches, whose keeper's pod has so many containers, and waits until Kubernetes has nothing of it any more but its record,
// which has the result. It returns what the launch warned of.
func (b bed) endsAlone(t *testing.T, s *spec.ClusterSpec, containers int) (warnings []string) {
	t.Helper()
	id := launcher.ID(s.Name)
	b.nothingLeft(t, id)
	if _, err := b.l.Launch(t.Context(), s, launcher.Payload{Warn: func(text string) { warnings = append(warnings, text) }}); err != nil {
		t.Fatal(err)
	}
	b.wantContainers(t, id, "keeper", containers)
	b.awaitNothing(t, id)
	if s, err := b.l.Result(t.Context(), id); err != nil || s.Exit.Cause != "succeeded" {
		t.Errorf("the result: %+v, %v", s, err)
	}
	return warnings
}
