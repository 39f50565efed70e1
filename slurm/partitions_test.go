//go:build linux

package slurm_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/raytest"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestPartitions: limits of partitions, on a site that lets a job wait rather than refuse it (EnforcePartLimits=NO); and what jobs have of their users.
func TestPartitions(t *testing.T) {
	pace.Parallel(t)
	b := start(t, slurmtest.Options{
		Nodes: 2, Binds: []string{filepath.Dir(filepath.Dir(raytest.Env(t, raytest.Ray240)))},
		// main goes first, so that the reason of a job in both is what keeps it from running in the other.
		Partitions: []slurmtest.Partition{{Name: "main", Default: true, Extra: "PriorityTier=2"}, {Name: "one", Extra: "MaxNodes=1"}, {Name: "short", Extra: "MaxTime=5"}},
		Settings:   map[string]string{"EnforcePartLimits": "NO"},
	})
	t.Run("AtTimeLimit", b.atTimeLimit)
	t.Run("DrainedNodes", b.drainedNodes)
	t.Run("UsersEnvironment", b.usersEnvironment)
	t.Run("InsideJob", b.insideJob)
	t.Run("InsideHeterogeneous", b.insideHeterogeneous)
	t.Run("OldRay", b.oldRay)
	t.Run("NodeFails", b.nodeFailsForGood)
	b.leavesNothing(t)
}

// inPartition is a run of so many whole nodes.
func (b *bed) inPartition(name, partition, entrypoint string, nodes int) *spec.ClusterSpec {
	s, exclusive := b.named(name, entrypoint), true
	s.Sections = slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{Partition: partition, Exclusive: &exclusive}})
	s.Head, s.Workers = spec.Head{}, []spec.WorkerGroup{{Name: "w", Replicas: &nodes, NodeResources: small()}}
	return s
}

// atTimeLimit: lifetime.max may be all that the partition gives.
func (b *bed) atTimeLimit(t *testing.T) {
	g := b.gate(t)
	s := b.inPartition("all-of-it", "short", g.wait(), 1)
	s.Lifetime.Max = units.Limit(5 * time.Minute)
	r := b.begin(t, s, launcher.Payload{})
	r.until("running", jobRuns)
	if limit, err := b.Slurm(t.Context(), "squeue", "--noheader", "--name=all-of-it", "--format=%l"); err != nil || strings.TrimSpace(limit) != "5:00" {
		t.Errorf("Slurm's limit of the job is %q, %v", limit, err)
	}
	g.open()
	r.ended(0, "succeeded", "")
	r.forgotten()
}

// drainedNodes: Slurm has one reason, PartitionNodeLimit, for a job that may run when nodes are in service again, and for one that never can.
func (b *bed) drainedNodes(t *testing.T) {
	node := func(state string) {
		t.Helper()
		if _, err := b.Slurm(t.Context(), "scontrol", "update", "NodeName=node2", "State="+state, "Reason=test"); err != nil {
			t.Error(err)
		}
	}
	node("DRAIN")
	r := b.begin(t, b.inPartition("patient", "main,one", "echo both", 2), launcher.Payload{})
	// Slurm's reason is that of the partition at which it has looked last: its main scheduler and the backfill one take turns, so the other one's comes and goes.
	waits := r.until("waiting for the drained node", func(s launcher.Status) bool { return s.Reason.Code == "PartitionNodeLimit" })
	if waits.Due != nil || !strings.Contains(waits.Reason.Message, "in service") {
		t.Errorf("status %+v", waits)
	}
	never := b.begin(t, b.inPartition("too-many", "one", "echo never", 2), launcher.Payload{})
	never.ended(runstate.CodeStartFailed, "start-failed", "it asks for 2 nodes, and a job may have 1 in partition one")
	never.forgotten()
	if out, err := b.Slurm(t.Context(), "squeue", "--noheader", "--name=patient", "--format=%T"); err != nil || out != "PENDING" {
		t.Errorf("the other's job is %q, %v", out, err)
	}
	b.down(t, r.l, r.id)
	r.ended(runstate.CodeInterrupted, "down", "")
	r.forgotten()
	node("RESUME")
}
