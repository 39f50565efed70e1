//go:build linux

package slurmtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// waitTimeout bounds the waits of tests; conditions normally hold much sooner.
const waitTimeout = 5 * time.Minute

// queryInterval is the time between queries to slurmctld, each a process.
const queryInterval = 200 * time.Millisecond

// Submit submits a batch script as the test's user and returns the job id. Output goes to shared/job-<id>.out unless args
// set another file.
func (c *Cluster) Submit(ctx context.Context, script string, args ...string) (string, error) {
	cmd := c.Command(ctx, "", "sbatch", append([]string{"--parsable", "--output", c.Dir + "/shared/job-%j.out"}, args...)...)
	cmd.Stdin = strings.NewReader("#!/bin/sh\n" + script + "\n")
	return output(cmd)
}

// lossy stands before the real sbatch in PATH: it counts. Where there is a file "lose" it submits on compute nodes and prints nothing, and where there is a file
// "login-only" it refuses on them as a partition with AllocNodes does (slurm.conf(5)), to which Slurm does not hold root.
const lossy = `#!/bin/sh
[ "$(hostname)" = ctl ] || node=yes
if [ "$node" ] && [ -e PLACE/login-only ]; then
	echo "sbatch: error: Batch job submission failed: Access/permission denied" >&2
	exit 1
fi
real=$(PATH=${PATH#PLACE/bin:}; command -v sbatch)
case "$*" in *--test-only*) exec "$real" "$@" ;; esac
echo "$*" >> PLACE/submitted
if [ "$node" ] && rm PLACE/lose 2> /dev/null; then "$real" "$@" > /dev/null; kill -9 $$; fi
exec "$real" "$@"
`

// WrapSbatch writes a program sbatch for which commands can be disturbed, and returns the directory of the files that it looks for ("lose", "login-only") and
// writes ("submitted": the arguments, a line for each submission). Its subdirectory bin is to be the first one of a command's PATH, which jobs inherit.
func (c *Cluster) WrapSbatch(t testing.TB) (dir string) {
	t.Helper()
	dir = filepath.Join(c.Dir, "shared", "orders")
	wrapper := filepath.Join(dir, "bin", "sbatch")
	if err := errors.Join(os.MkdirAll(filepath.Dir(wrapper), 0o755), os.WriteFile(wrapper, []byte(strings.ReplaceAll(lossy, "PLACE", dir)), 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// JobState is a job's state as squeue prints it ("RUNNING"), or "" when slurmctld has no record of the job any more.
func (c *Cluster) JobState(ctx context.Context, id string) (string, error) {
	out, err := c.Slurm(ctx, "squeue", "-h", "-t", "all", "-j", id, "-o", "%T")
	if err != nil && strings.Contains(err.Error(), "Invalid job id") {
		return "", nil
	}
	return out, err
}

// AwaitJob waits until a job is in one of the states.
func (c *Cluster) AwaitJob(t testing.TB, id string, states ...string) {
	t.Helper()
	c.Await(t, fmt.Sprintf("job %s to be %s", id, strings.Join(states, " or ")), func(ctx context.Context) (bool, error) {
		state, err := c.JobState(ctx, id)
		if err == nil {
			err = fmt.Errorf("it is %q", state)
		}
		return slices.Contains(states, state), err
	})
}

// AwaitNode waits until a node's state, as sinfo prints it, starts with the given text: "idle", "down".
func (c *Cluster) AwaitNode(t testing.TB, i int, state string) {
	t.Helper()
	c.Await(t, nodeName(i)+" to be "+state, func(ctx context.Context) (bool, error) {
		out, err := c.Slurm(ctx, "sinfo", "-h", "-N", "-n", nodeName(i), "-o", "%T")
		if err == nil {
			err = fmt.Errorf("it is %q", out)
		}
		return strings.HasPrefix(out, state), err
	})
}

// AwaitNodeBack waits until a lost node is in service again. Until the next job sinfo may still report the state of the last one (in
// 24.11 "mixed", for minutes after a requeue of that job, or "planned").
func (c *Cluster) AwaitNodeBack(t testing.TB, i int) {
	t.Helper()
	c.Await(t, nodeName(i)+" to be back", func(ctx context.Context) (bool, error) {
		out, err := c.Slurm(ctx, "sinfo", "-h", "-N", "-n", nodeName(i), "-o", "%T")
		if err == nil {
			err = fmt.Errorf("it is %q", out)
		}
		return out != "" && !strings.HasPrefix(out, "down") && !strings.HasPrefix(out, "unk") && !strings.HasSuffix(out, "*"), err
	})
}

// Await waits for a condition, and fails the test if it does not hold in time. Only then it reports errors of the condition.
func (c *Cluster) Await(t testing.TB, what string, condition func(context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waitTimeout) // also at a test's end
	defer cancel()
	if err := await(ctx, queryInterval, what, func() (bool, error) { return condition(ctx) }); err != nil {
		t.Fatal(err)
	}
}

// ownRequests matches requests among Slurm's daemons, and of this package.
var ownRequests = regexp.MustCompile(`^(REQUEST_STATS_INFO|REQUEST_PING|MESSAGE_.*|REQUEST_COMPLETE_.*|REQUEST_STEP_COMPLETE|ACCOUNTING_.*|.*_NODE_REGISTRATION_STATUS|REQUEST_CONFIG|REQUEST_PERSIST_INIT)$`)

var rpcLine = regexp.MustCompile(`^\s*(\w+)\s*\(\s*\d+\)\s*count:(\d+)`)

// Requests counts clients' requests to slurmctld by type, since its start or ResetRequests, from sdiag.
func (c *Cluster) Requests(ctx context.Context) (map[string]int, error) {
	out, err := c.Slurm(ctx, "sdiag")
	if err != nil {
		return nil, err
	}
	_, types, ok := strings.Cut(out, "statistics by message type")
	types, _, more := strings.Cut(types, "statistics by user")
	if !ok || !more {
		return nil, fmt.Errorf("sdiag printed %q", out)
	}
	counts := map[string]int{}
	for line := range strings.Lines(types) {
		if m := rpcLine.FindStringSubmatch(line); m != nil && !ownRequests.MatchString(m[1]) {
			counts[m[1]], _ = strconv.Atoi(m[2])
		}
	}
	return counts, nil
}

// Orders are the Requests that are not queries, which clients and watchers repeat an arbitrary number of times.
func (c *Cluster) Orders(ctx context.Context) (map[string]int, error) {
	counts, err := c.Requests(ctx)
	maps.DeleteFunc(counts, func(kind string, _ int) bool { return strings.Contains(kind, "_INFO") })
	return counts, err
}

// ResetRequests resets the counts of Requests.
func (c *Cluster) ResetRequests(ctx context.Context) error {
	_, err := c.Slurm(ctx, "sdiag", "--reset")
	return err
}
