package kuberay_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestNoImage: a start that cannot succeed ends with one sentence, and nothing stays allocated.
func TestNoImage(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := job("noimage", "echo never")
	s.Sections = kuberayspec.In(&kuberayspec.Section{KeeperImage: "rayproject/ray:2.60.0"})
	s.Image = "registry.invalid/nosuch:2.60.0"
	r := b.run(t, b.l, s)
	if e := r.wantEnd(t, "start-failed", runstate.CodeStartFailed, ""); !strings.Contains(e.Message, "registry.invalid/nosuch:2.60.0") {
		t.Errorf("exit %+v", e)
	}
}

// TestNoKeeperImage: the launch itself fails where not even the keeper can start.
func TestNoKeeperImage(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	for image, want := range map[string]string{
		"registry.invalid/NoSuch:2.60.0": "registry.invalid/NoSuch:2.60.0", // capitals make it invalid; what may be pulled later is given a minute
		"rayctl.test/pause:1":            "python3 cannot be started in image rayctl.test/pause:1",
	} {
		s := job("nokeeper", "echo never")
		s.Sections = kuberayspec.In(&kuberayspec.Section{KeeperImage: image})
		_, err := b.l.Launch(t.Context(), s, launcher.Payload{})
		if launcher.ExitCode(err) != runstate.CodeStartFailed || !strings.Contains(err.Error(), want) {
			t.Errorf("code %d: %v", launcher.ExitCode(err), err)
		}
		b.NothingLeft(t, b.namespace, nil)
	}
}

// TestMissingSecret: the reason of a pod that refers to a missing Secret names it; once the Secret exists the pod starts.
func TestMissingSecret(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := job("secretive", `echo "it is $WORD"`)
	s.Secrets = []spec.Secret{{Name: "WORD", SecretKeyRef: &spec.SecretKeyRef{Name: "theirs", Key: "word"}}}
	r := b.run(t, b.l, s)
	r.until(t, "word of the Secret", func(st launcher.Status) bool {
		return st.Reason.Code == "CreateContainerConfigError" && strings.Contains(st.Reason.Message, `"theirs" not found`)
	})
	b.Create(t, b.namespace, `{apiVersion: v1, kind: Secret, metadata: {name: theirs}, stringData: {word: late}}`)
	r.wantEnd(t, "succeeded", 0, "it is late\n")
}

// TestCrash: the head's container ends again and again; the reason has its last lines.
func TestCrash(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := job("crashes", "echo never")
	s.Head.Sections = kuberayspec.PatchIn(spec.Object{"spec": map[string]any{"containers": []any{map[string]any{
		"name": "ray-head", "args": []any{"echo the disk is upside down >&2; exit 4;"},
	}}}})
	r := b.run(t, b.l, s)
	if e := r.wantEnd(t, "start-failed", runstate.CodeStartFailed, ""); !strings.Contains(e.Message, "the disk is upside down") {
		t.Errorf("exit %+v", e)
	}
}

// TestJobRefused: a Job that the namespace's quota refuses fails the launch.
func TestJobRefused(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	b.Create(t, b.namespace, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: tighter}, spec: {hard: {count/jobs.batch: "0"}}}`)
	kubetest.Await(t, "the quota to count", func(ctx context.Context) error {
		_, err := b.l.Launch(ctx, job("refused", "echo never"), launcher.Payload{})
		if err == nil || !strings.Contains(err.Error(), "exceeded quota: tighter") {
			return err
		}
		if launcher.ExitCode(err) != runstate.CodeStartFailed {
			t.Errorf("code %d: %v", launcher.ExitCode(err), err)
		}
		return nil
	})
}

// TestQueueFull: the reason of a gang that its queue does not admit names the limit, and the run ends when lifetime.queue has passed.
func TestQueueFull(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	queue := b.tinyQueue(t)
	s := job("crowded", "echo never")
	s.Sections = kuberayspec.In(&kuberayspec.Section{Queue: queue})
	s.Lifetime.Queue = units.Limit(time.Minute)
	r := b.run(t, b.l, s)
	r.until(t, "word of the queue's limit", func(st launcher.Status) bool {
		return st.Reason.Code == "QueueFull" && strings.Contains(st.Reason.Message, "insufficient cpu")
	})
	r.wantEnd(t, "queue", runstate.CodeQueueTimeout, "")
}

var tinyQueues atomic.Int32

// tinyQueue is a queue of its own that has no room for any pod of Ray's.
func (b bed) tinyQueue(t *testing.T) string {
	t.Helper()
	queue := fmt.Sprintf("tiny-%s-%d", b.namespace, tinyQueues.Add(1))
	b.Create(t, "", `{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: `+queue+`}, spec: {weight: 1, capability: {cpu: 100m}}}`)
	t.Cleanup(func() {
		if err := b.Dynamic.Resource(kubetest.Queues).Delete(context.Background(), queue, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return queue
}
