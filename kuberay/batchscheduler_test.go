//go:build matrix

package kuberay_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/kubetest"
)

// awaitGang waits until the live PodGroup wants so many pods. Of each group it wants what it did at the launch: the operator only changes the total.
func (b bed) awaitGang(t *testing.T, cluster string, members int64) {
	t.Helper()
	kubetest.Await(t, fmt.Sprintf("a gang of %d", members), func(ctx context.Context) error {
		group, err := b.Dynamic.Resource(kubetest.PodGroups).Namespace(b.namespace).Get(ctx, "ray-"+cluster+"-pg", metav1.GetOptions{})
		if err != nil {
			return err
		}
		spec := group.Object["spec"].(map[string]any)
		if want := map[string]any{"headgroup": int64(1), "w": int64(1)}; spec["minMember"] != members || !reflect.DeepEqual(spec["minTaskMember"], want) {
			return fmt.Errorf("the PodGroup: %v", spec)
		}
		return nil
	})
}

const noEarlyHeads = "the operator makes one PodGroup of head and workers"

// TestBatchScheduler: an operator with --batch-scheduler=volcano adopts our PodGroup; there is never a second one. Of the conformance suite that runs a second
// time which this form of the operator can break: a gang that grows and shrinks, and what Kubernetes shows of a cluster and its end. The operator sees
// neither clients nor keepers nor jobs, and makes no pod again where Ray's processes end.
func TestBatchScheduler(t *testing.T) {
	o := options()
	o.BatchScheduler = true
	b := bedWith(t, o)
	s, least, most := named("adopted", waitingDriver), 1, 2
	s.Workers = []spec.WorkerGroup{{Name: "w", MinReplicas: &least, MaxReplicas: &most, NodeResources: smallNode()}}
	groups, single := b.begin(t, b.l, s), b.begin(t, b.l, named("single", waitingDriver))
	for _, r := range []*watchedRun{groups, single} {
		r.printed(t, "begun\n")
	}
	found, err := b.Dynamic.Resource(kubetest.PodGroups).Namespace(b.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(found.Items) != 2 {
		t.Errorf("%d PodGroups, %v", len(found.Items), err)
	}
	b.wantApart(t) // needs nothing but what the others leave
	b.awaitGang(t, "adopted", 2)
	if _, err := b.l.Scale(t.Context(), "adopted", []keeper.Scale{{Group: "w", Min: 2}}); err != nil {
		t.Error(err)
	}
	b.awaitGang(t, "adopted", 3)
	groups.until(t, "the second worker", func(st launcher.Status) bool {
		return allocation(st, runstate.PurposeElastic).State == runstate.AllocationGranted
	})
	for _, r := range []*watchedRun{groups, single} {
		b.release(t, r.id)
		r.wantEnd(t, "succeeded", 0, "begun\ndone\n")
	}
	lone := named("lone", "echo never")
	lone.Head.Early, lone.Workers = true, s.Workers
	_, err = b.l.Launch(t.Context(), lone, launcher.Payload{})
	if launcher.ExitCode(err) != runstate.CodeStartFailed || !strings.Contains(err.Error(), "the head cannot start before the workers: the KubeRay operator runs with --batch-scheduler=volcano") {
		t.Errorf("code %d: %v", launcher.ExitCode(err), err)
	}
	b.NothingLeft(t, b.namespace, onlyRecords)
	c := b.conformance()
	c.HoldWorkers = nil
	c.Without["early head"], c.Without["early head and driver"] = noEarlyHeads, noEarlyHeads
	c.Elsewhere = map[string]string{"queue limit": "TestQueueFull"}
	c.Only = []string{"elastic group", "another spec, secrets, terminate"}
	t.Run("Conformance", func(t *testing.T) { conformance.Run(t, c) })
}
