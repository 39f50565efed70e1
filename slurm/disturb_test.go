//go:build linux

package slurm_test

import (
	"context"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

func (b *bed) killKeeper(t *testing.T, id launcher.ID) {
	t.Helper()
	b.kill(t, id, func(command string) bool { return strings.Contains(command, "keeper.pyz slurm-start") })
}

func (b *bed) hold(t *testing.T) (string, func(*testing.T, launcher.ID)) {
	t.Helper()
	g := b.gate(t)
	return g.wait(), func(*testing.T, launcher.ID) { g.open() }
}

func (b *bed) killHead(t *testing.T, id launcher.ID) {
	t.Helper()
	b.kill(t, id, func(command string) bool { return strings.Contains(command, "gcs_server") })
}

// freezeDashboard stops the process that serves HTTP; Ray's other processes go on.
func (b *bed) freezeDashboard(t *testing.T, id launcher.ID) func() {
	t.Helper()
	dashboard := func(command string) bool { return strings.Contains(command, "dashboard/dashboard.py") }
	b.signal(t, id, syscall.SIGSTOP, dashboard)
	return func() { b.signal(t, id, syscall.SIGCONT, dashboard) }
}

func (b *bed) kill(t *testing.T, id launcher.ID, match func(string) bool) {
	t.Helper()
	b.signal(t, id, syscall.SIGKILL, match)
}

func (b *bed) signal(t *testing.T, id launcher.ID, number syscall.Signal, match func(string) bool) {
	t.Helper()
	hit := 0
	for _, p := range b.processes(t, id) {
		if match(p.Command) {
			if err := syscall.Kill(p.PID, number); err != nil {
				t.Errorf("signal %d to %d: %v", number, p.PID, err)
			}
			hit++
		}
	}
	if hit != 1 {
		t.Errorf("%d processes got signal %d, not one", hit, number)
	}
}

// closePartition lets nothing start. Other scenarios run at the same time: to occupy all nodes would have to wait for them.
func (b *bed) closePartition(t *testing.T) func() {
	t.Helper()
	set := func(state string) {
		if _, err := b.Slurm(context.Background(), "scontrol", "update", "PartitionName=main", "State="+state); err != nil {
			t.Error(err)
		}
	}
	set("DOWN")
	return func() { set("UP") }
}

// holdWorkers lets them wait in a partition of their own, which is down.
func (b *bed) holdWorkers(t *testing.T, s *spec.ClusterSpec) func() {
	t.Helper()
	partition := s.Name + "-workers"
	scontrol := func(args ...string) {
		if _, err := b.Slurm(context.Background(), "scontrol", args...); err != nil {
			t.Error(err)
		}
	}
	scontrol("create", "PartitionName="+partition, "Nodes=ALL", "State=DOWN")
	t.Cleanup(func() { scontrol("delete", "PartitionName="+partition) })
	for i := range s.Workers {
		s.Workers[i].Sections = slurmspec.GroupIn(&slurmspec.Group{Partition: partition})
	}
	return func() { scontrol("update", "PartitionName="+partition, "State=UP") }
}

// occupy takes all nodes.
func (b *bed) occupy(t *testing.T) func() {
	t.Helper()
	id, err := b.Submit(t.Context(), "sleep 1000", "--exclusive", "--nodes="+strconv.Itoa(b.Options.Nodes))
	if err != nil {
		t.Fatal(err)
	}
	b.AwaitJob(t, id, "RUNNING")
	return func() {
		if _, err := b.Slurm(context.Background(), "scancel", id); err != nil {
			t.Error(err)
		}
	}
}
