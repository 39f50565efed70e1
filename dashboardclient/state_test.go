package dashboardclient_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/test/raytest"
)

func TestState(t *testing.T) {
	onEach(t, func(t *testing.T, client *dashboardclient.Client, ctx context.Context) {
		nodes, err := client.WaitNodes(ctx, 1)
		if err != nil || len(nodes) != 1 {
			t.Fatal(nodes, err)
		}
		node := nodes[0]
		if !node.Head || !node.Alive() || node.Resources["CPU"] != 2 || node.StartTime.IsZero() || !node.EndTime.IsZero() {
			t.Errorf("%+v", node)
		}
		status, err := client.ClusterStatus(ctx)
		for err == nil && !status.UsageKnown && ctx.Err() == nil { // the autoscaler's first report takes some seconds
			<-time.After(200 * time.Millisecond)
			status, err = client.ClusterStatus(ctx)
		}
		if err != nil || status.Resources["CPU"].Total != 2 || status.Resources["object_store_memory"].Total == 0 {
			t.Errorf("%+v, %v", status, err)
		}
		activities, err := client.Activities(ctx)
		if _, ok := activities["driver"]; err != nil || !ok {
			t.Errorf("%+v, %v", activities, err)
		}
		if _, err := client.ActorSummary(ctx); err != nil {
			t.Error(err)
		}
		if _, err := client.TaskSummary(ctx); err != nil {
			t.Error(err)
		}
		nodeLogs(t, ctx, client, node.ID)
	})
}

func nodeLogs(t *testing.T, ctx context.Context, client *dashboardclient.Client, node string) {
	t.Helper()
	files, err := client.NodeLogs(ctx, node, "raylet*")
	for err != nil && ctx.Err() == nil { // the dashboard gets the agent's address some seconds after the node's start
		<-time.After(200 * time.Millisecond)
		files, err = client.NodeLogs(ctx, node, "raylet*")
	}
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, category := range files {
		names = append(names, category...)
	}
	if !slices.Contains(names, "raylet.out") {
		t.Errorf("%v", files)
	}
	var whole, tail strings.Builder
	if err := client.NodeLog(ctx, node, "raylet.out", &whole, dashboardclient.LogOptions{}); err != nil || whole.Len() == 0 {
		t.Errorf("%d bytes, %v", whole.Len(), err)
	}
	if err := client.NodeLog(ctx, node, "raylet.out", &tail, dashboardclient.LogOptions{Tail: 1}); err != nil || tail.Len() == 0 || strings.Count(tail.String(), "\n") > 1 {
		t.Errorf("%q, %v", tail.String(), err)
	}
	for range 40 { // Ray sometimes answers with nothing instead of an error
		err := client.NodeLog(ctx, node, "none.out", &whole, dashboardclient.LogOptions{})
		if strings.HasSuffix(t.Name(), raytest.Ray260) && !errors.Is(err, dashboardclient.ErrNotFound) || err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("a file that is not there gives %v", err)
		}
	}
	if _, err := client.NodeLogs(ctx, strings.Repeat("0", 56), ""); !errors.Is(err, dashboardclient.ErrNotFound) {
		t.Errorf("a node that is not there gives %v", err)
	}
}

func TestActorsAndTasks(t *testing.T) {
	t.Parallel()
	client, ctx := newest(t)
	head := raytest.Shared(t, raytest.Ray260)
	id := submit(t, ctx, client, head.Python+` -c '
import ray, time
ray.init()
@ray.remote(num_cpus=0)
class Rollout:
    def ping(self): return 1
@ray.remote(num_cpus=0)
def reward(): return 2
r = Rollout.remote()
print(ray.get([r.ping.remote(), reward.remote()]), flush=True)
time.sleep(1000)'`)
	ready, stop := context.WithCancel(ctx)
	defer stop()
	var out watchedBuffer
	out.contains("[1, 2]\n", stop)
	_, _ = client.FollowJob(id, dashboardclient.FollowOptions{StripHeader: true}).Run(ready, &out)
	actors, err := client.ActorSummary(ctx)
	if err != nil || actors["Rollout"]["ALIVE"] != 1 {
		t.Errorf("%v, %v; the driver said %q", actors, err, out.buffer.String())
	}
	tasks, err := client.TaskSummary(ctx)
	for err == nil && tasks["reward"]["FINISHED"] != 1 && ctx.Err() == nil { // workers report their tasks every second
		<-time.After(200 * time.Millisecond)
		tasks, err = client.TaskSummary(ctx)
	}
	if err != nil {
		t.Errorf("%v, %v", tasks, err)
	}
	activities, err := client.Activities(ctx)
	if err != nil || !activities["driver"].Active || activities["driver"].Reason == "" {
		t.Errorf("%+v, %v", activities, err)
	}
	if _, err := client.StopJob(ctx, id); err != nil {
		t.Error(err)
	}
}
