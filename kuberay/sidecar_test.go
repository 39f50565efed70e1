package kuberay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// proxy is a container that never ends by itself.
const proxy = `{"name": "mesh-proxy", "image": "rayctl.test/pause:1", "securityContext": {"runAsUser": 1000, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}%s}`

// inject lets the API server add the proxy to each pod of the namespace by a mutating webhook: as the first container, as Istio does it with
// holdApplicationUntilProxyStarts; to pods labelled for it as a native sidecar. asks: it leaves out pods that say so in Istio's way.
func (b bed) inject(t *testing.T, native, asks bool) {
	t.Helper()
	b.webhook(t, "Mutating", "inject.rayctl.test", "pods", func(asked *admissionv1.AdmissionRequest, answer *admissionv1.AdmissionResponse) {
		pod := corev1.Pod{}
		if err := json.Unmarshal(asked.Object.Raw, &pod); err != nil {
			t.Error(err)
		}
		if !asks || pod.Labels["sidecar.istio.io/inject"] != "false" {
			kind := admissionv1.PatchTypeJSONPatch
			answer.PatchType, answer.Patch = &kind, patchOf(pod, native)
		}
	})
	kubetest.Await(t, "the webhook to count", func(ctx context.Context) error {
		p, err := b.Core.CoreV1().Pods(b.namespace).Create(ctx, anyPod(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && len(p.Spec.Containers)+len(p.Spec.InitContainers) < 2 {
			err = fmt.Errorf("nothing is added")
		}
		return err
	})
}

func patchOf(pod corev1.Pod, native bool) []byte {
	switch {
	case native && len(pod.Spec.InitContainers) == 0:
		return []byte(`[{"op": "add", "path": "/spec/initContainers", "value": [` + fmt.Sprintf(proxy, `, "restartPolicy": "Always"`) + `]}]`)
	case native:
		return []byte(`[{"op": "add", "path": "/spec/initContainers/0", "value": ` + fmt.Sprintf(proxy, `, "restartPolicy": "Always"`) + `}]`)
	default:
		return []byte(`[{"op": "add", "path": "/spec/containers/0", "value": ` + fmt.Sprintf(proxy, "") + `}]`)
	}
}

// TestSidecars: a proxy that admission adds to pods does not keep a cluster that has ended.
func TestSidecars(t *testing.T) {
	pace.Parallel(t)
	t.Run("Stubborn", func(t *testing.T) { // it is added to all pods, whatever they say, and the one who launched watches
		b := newBed(t)
		b.inject(t, false, false)
		r := b.run(t, b.l, job("stubborn", waitingDriver+"; exit 3"))
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
	t.Run("Unwatched", func(t *testing.T) { // nobody watches: `down` says what is there, deletes it, and the result stays
		b := newBed(t)
		b.inject(t, false, false)
		id := launcher.ID("unwatched")
		b.nothingLeft(t, id)
		if _, err := b.l.Launch(t.Context(), job(string(id), "echo unseen"), launcher.Payload{}); err != nil {
			t.Fatal(err)
		}
		kubetest.Await(t, "the status to name the container that still runs", func(ctx context.Context) error {
			all, err := b.l.List(ctx, launcher.Selector{Names: []string{string(id)}})
			if err == nil && (len(all) != 1 || all[0].Phase != runstate.Draining || !strings.Contains(all[0].Reason.Message, "have not: mesh-proxy")) {
				err = fmt.Errorf("%+v", all)
			}
			return err
		})
		if err := b.l.Terminate(t.Context(), id, launcher.End{Cause: "down"}); err != nil {
			t.Fatal(err)
		}
		if s, err := b.l.Result(t.Context(), id); err != nil || s.Exit.Cause != "succeeded" {
			t.Errorf("the result: %+v, %v", s, err)
		}
	})
	t.Run("Native", func(t *testing.T) { // Kubernetes ends it with the last container, which nobody has to watch
		b := newBed(t)
		b.inject(t, true, false)
		r := b.run(t, b.l, job("native", "echo beside"))
		r.wantEnd(t, "succeeded", 0, "beside\n")
		b.wantContainers(t, r.id, "record", 1)
	})
	t.Run("Asks", func(t *testing.T) { // a mesh that asks leaves the keeper's and the record's pod out
		b := newBed(t)
		b.inject(t, false, true)
		r := b.run(t, b.l, job("asks", "echo within"))
		r.wantEnd(t, "succeeded", 0, "within\n")
		b.wantContainers(t, r.id, "record", 1)
	})
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
