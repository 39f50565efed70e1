package keeper_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/local/proc"
)

// submit submits a job to the cluster, as `rayctl submit` does.
func (r *rig) submit(s *runstate.State, entrypoint string) {
	r.t.Helper()
	body, err := json.Marshal(map[string]string{"entrypoint": entrypoint, "submission_id": "other"})
	r.must(err)
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.Head.Dashboard+"/api/jobs/", bytes.NewReader(body))
	r.must(err)
	request.Header.Set("Authorization", "Bearer "+r.rayToken())
	response, err := http.DefaultClient.Do(request)
	r.must(err)
	r.must(response.Body.Close())
	if response.StatusCode != http.StatusOK {
		r.t.Fatalf("submit: %s", response.Status)
	}
}

func mount(t *testing.T, dir, options string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

const forever = "echo up; sleep 100000"

// Nothing outlives the keeper, even if keeper and supervisors are killed together.
func TestKillKeeperAndSupervisors(t *testing.T) {
	t.Parallel()
	r := newRig(t, forever, func(o *keeper.Orders) {
		o.Groups = append(o.Groups, keeper.Group{Name: "w", Count: 1, CPUs: ptr(1.0), GPUs: ptr(0.0), ObjectStoreMemory: ptr(int64(100e6))})
	}).start(nil)
	r.commit(keeper.Commit{})
	s := r.state("the driver runs", running)
	if !proc.Alive(s.Keeper.PID, s.Keeper.StartTime) {
		t.Error("a living keeper is taken for dead")
	}
	// First a worker's supervisor: the worker is reported by name, and Ray goes on.
	r.kill(s.Nodes[1].PID)
	s = r.state("the worker is reported", func(s *runstate.State) bool { return s.Nodes[1].State == "DEAD" })
	if !running(s) || !strings.Contains(s.Nodes[1].Message, "supervisor of node w-0 was killed by signal 9") {
		t.Errorf("after the worker's death: %+v", s.Nodes)
	}
	r.kill(s.Keeper.PID, s.Nodes[0].PID)
	r.nothingLeft()
	if proc.Alive(s.Keeper.PID, s.Keeper.StartTime) {
		t.Error("a killed keeper is taken for alive")
	}
}

// Only the keeper is killed, while Ray starts; supervisors notice by their pipe. Before that all processes of another cluster are killed together: the directory of its
// node stays until this cluster's node removes it.
func TestKillKeeperWhileStarting(t *testing.T) {
	t.Parallel()
	killed := newRig(t, forever, nil).start(nil)
	killed.eventually("Ray is starting", func() bool { return len(killed.directories()) == 1 && len(killed.processes()) > 2 })
	killed.killAll()
	left := killed.directories()
	if len(left) != 1 {
		t.Fatalf("left of a cluster whose processes were all killed: %v", left)
	}
	r := newRig(t, forever, nil).start(nil)
	r.eventually("the next node removes it", func() bool { return len(killed.directories()) == 0 })
	r.eventually("Ray is starting", func() bool { return len(r.directories()) == 1 && len(r.processes()) > 2 })
	r.kill(r.cmd.Process.Pid)
	r.nothingLeft()
}

// A step command starts the supervisors, as srun does: here a shell that sets SLURM_PROCID for each and forwards signals.
func TestStep(t *testing.T) {
	t.Setenv("SLURM_JOB_ID", "7")
	t.Setenv("SLURM_CPUS_ON_NODE", "2")
	r := newRig(t, `echo "has" $(env | grep ^SLURM_); exit 4`, nil)
	python := r.orders.Ray.Python
	r.orders.Advertise, r.orders.Network, r.orders.Ports, r.orders.WatchStdin = "auto", "127.0.0.0/8", "21000-21999", false
	r.orders.Groups[0].CPUs, r.orders.Groups[0].GPUs = nil, nil
	r.orders.Start = keeper.Start{Mode: keeper.StartStep, Argv: []string{"sh", "-c",
		`trap 'kill -USR1 $child; wait $child; exit $?' USR1; SLURM_PROCID=0 "$0" -S -E "$1" node "$2" --slurm & child=$!; wait $child`,
		python, r.zip, string(r.dir)}}
	r.start(nil)
	r.must(r.dir.Commit(keeper.Commit{}))
	s := r.result()
	if s.Exit.Cause != runstate.CauseDriverFailed || s.Exit.Code != 4 {
		t.Errorf("exit: %+v", s.Exit)
	}
	if !strings.HasSuffix(r.log(), "\nhas SLURM_JOB_ID=7\n") {
		t.Errorf("the driver has other variables of Slurm's than the job: %q", r.log())
	}
}

// noHead is a cluster whose head is never reached: for what a keeper does before Ray is there.
func noHead(o *keeper.Orders) {
	o.Start = keeper.Start{Mode: keeper.StartExternal, Dashboard: "http://127.0.0.1:9", GCS: "127.0.0.1:9"}
	o.WatchStdin = false
}

// The API refuses wrong tokens and invalid requests, and commits once.
func TestAPI(t *testing.T) {
	t.Parallel()
	r := newRig(t, "true", noHead).start(nil)
	r.eventually("the API is up", func() bool {
		s, err := r.dir.State()
		return err == nil && s.Keeper.URL != ""
	})
	ctx, c := context.Background(), r.client()
	s, err := c.State(ctx)
	r.must(err)
	stranger := keeper.NewClient(keeper.Endpoint{URL: s.Keeper.URL, Token: "wrong"})
	defer stranger.Close()
	for what, err := range map[string]error{
		"401 the keeper's token is missing or wrong": second(stranger.State(ctx)),
		"404 packages are PUT":                       c.PutPackage(ctx, "../orders.json", 1, strings.NewReader("x")),
		"400 idle is not a number of seconds":        second(c.Extend(ctx, keeper.Extend{Idle: ptr(-1.0)})),
		"409 a run has no idle limit":                second(c.Extend(ctx, keeper.Extend{Idle: ptr(60.0)})),
	} {
		status, text, _ := strings.Cut(what, " ")
		var refused *keeper.Error
		if !errors.As(err, &refused) || fmt.Sprint(refused.Status) != status || !strings.Contains(refused.Message, text) {
			t.Errorf("want %s, got %v", what, err)
		}
	}
	for path, bodies := range map[string][]string{
		"/v1/leaving": {`{}`, `{"seconds": true}`, `{"seconds": NaN}`, `{"seconds": 1e999}`, `{"seconds": 1, "by": 1}`, `{"seconds": ` + strings.Repeat("9", 400) + `}`},
		"/v1/end":     {`{"cause": 1}`, `{"message": []}`},
		"/v1/change": {
			`{}`, `{"specHash": "x", "lifetime": {"max": "1h"}}`, `{"specHash": "x", "lifetime": {"max": -1}}`, `{"specHash": "x", "lifetime": {}, "scaling": {"idle": []}}`,
			`{"specHash": "x", "lifetime": {}, "groups": {"w": [1, 2]}}`, `{"specHash": "x", "lifetime": {}, "groups": {"w": [1, 2, true]}}`, `{"specHash": "x", "lifetime": {}, "groups": []}`,
		},
		"/v1/gpus": {`{}`, `{"node": "a", "begun": "b", "message": "", "count": 1, "seconds": Infinity, "busySeconds": 0, "idle": 0}`},
	} {
		for _, body := range bodies {
			if status := r.post(s, path, body); status != http.StatusBadRequest {
				t.Errorf("POST %s %.80s: %d", path, body, status)
			}
		}
	}
	for _, name := range []string{"1.zip", "jax-0.6.0+cuda12-cp312-cp312-manylinux_2_28_x86_64.whl", "a-1!2.0-py3-none-any.whl"} {
		r.must(c.PutPackage(ctx, "package-"+name, 3, strings.NewReader("zip")))
	}
	commit := keeper.Commit{RuntimeEnv: json.RawMessage(`{}`)}
	s, err = c.Commit(ctx, commit)
	r.must(err)
	_, err = c.Commit(ctx, commit)
	r.must(err)
	if !s.Committed {
		r.state("committed", func(s *runstate.State) bool { return s.Committed })
	}
	commit.RuntimeEnv = json.RawMessage(`{"pip": ["x"]}`)
	var refused *keeper.Error
	if _, err := c.Commit(ctx, commit); !errors.As(err, &refused) || refused.Status != http.StatusConflict {
		t.Errorf("another commit: %v", err)
	}
	_, err = c.End(ctx, keeper.End{Cause: runstate.CauseDown, Now: true})
	r.must(err)
	if s := r.result(); s.Exit.Cause != runstate.CauseDown {
		t.Errorf("exit: %+v", s.Exit)
	}
}

func second[T any](_ T, err error) error { return err }

// The client's Watch yields the final document although the keeper exits right after it. The end is by lifetime.total, after which no attempt follows, whatever
// restarts.timeLimit allows.
func TestWatchSeesTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, "true", func(o *keeper.Orders) { o.Lifetime.Total, o.Job.Restarts.TimeLimit = 1.5, -1 }).start(nil)
	r.must(r.dir.Commit(keeper.Commit{}))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.eventually("the API is up", func() bool {
		s, err := r.dir.State()
		return err == nil && s.Keeper.URL != ""
	})
	var last *runstate.State
	begin := time.Now()
	for s, err := range r.client().Watch(ctx) {
		r.must(err)
		last = s
	}
	if last == nil || last.Exit == nil || last.Exit.Cause != runstate.CauseTotal || last.Exit.Code != 124 || len(last.Attempts) > 1 {
		t.Errorf("the last document after %v: %+v", time.Since(begin), last)
	}
}

// post sends the keeper a body as it is, and returns the answer's status.
func (r *rig) post(s *runstate.State, path, body string) int {
	r.t.Helper()
	token, err := r.dir.Token()
	r.must(err)
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, s.Keeper.URL+path, strings.NewReader(body))
	r.must(err)
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	r.must(err)
	defer response.Body.Close()
	return response.StatusCode
}
