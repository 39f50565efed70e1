//go:build linux

package slurm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// full is a cluster file that sets most of what a job can request.
func (r *restd) full(name string) *spec.ClusterSpec {
	yes := true
	s := r.twoGroups()
	s.Name, s.Job.Entrypoint = name, "true"
	s.Lifetime = spec.Lifetime{Max: units.Limit(time.Hour), Queue: units.Limit(time.Hour)}
	s.Workers[0].GPUs, s.Workers[0].GPUType = 2, "h100"
	s.Sections = slurmspec.In(&slurmspec.Section{Begin: "now+1hour", Group: slurmspec.Group{Partition: "main", Exclusive: &yes, Switches: r.switches("1@2:30"),
		ExtraArgs: []string{"--licenses=fluent:2", "--wckey=project", "--mail-type=ALL,TIME_LIMIT_80", "--mail-user=ann@example.org", "--nice=7"}}})
	s.Workers[0].Sections, s.Workers[1].Sections = slurmspec.GroupIn(&slurmspec.Group{Nodelist: "node1"}), slurmspec.GroupIn(&slurmspec.Group{Exclude: "node1"})
	return s
}

// switches are asked for where the API has them.
func (r *restd) switches(value string) string {
	if r.Options.Version == slurmtest.OldestVersion {
		return ""
	}
	return value
}

// placedWorkers are three on two nodes of which each has room for two. Their job starts once, so that it has a deadline.
func (r *restd) placedWorkers(name string) *spec.ClusterSpec {
	three, one, never := 3, small(), units.Count(0)
	one.CPUs = 6
	s := &spec.ClusterSpec{Name: name, Ray: spec.Ray{Python: r.python}, Workers: []spec.WorkerGroup{{Name: "w", Replicas: &three, NodeResources: one}}}
	s.Job.Entrypoint, s.Job.Restarts.Preempted = "true", &never
	s.Lifetime = spec.Lifetime{Max: units.Limit(time.Hour), Queue: units.Limit(2 * time.Hour)}
	s.Sections = slurmspec.In(&slurmspec.Section{Begin: "now+1hour", Comment: "project 7, it's $(id)", Group: slurmspec.Group{Switches: r.switches("1@2"), ExtraArgs: []string{"-Lfluent", "--mail-type=END"}}})
	return s
}

// request: Slurm's record of a job is the same whether sbatch or slurmrestd submitted it.
func (r *restd) request(t *testing.T) {
	for name, test := range map[string]struct {
		spec  func(name string) *spec.ClusterSpec
		parts int
		knows []string // among other things
	}{
		"full": {r.full, 2, []string{"NumTasks=1", "CPUs/Task=2", "MinMemoryNode=1G", "Requeue=1", "NtasksPerN:B:S:C=1:0:*:*", r.switches("Switches=1@00:02:30"),
			"Licenses=fluent:2", "WCKey=project", "MailUser=ann@example.org", "MailType=INVALID_DEPEND,BEGIN,END,FAIL,REQUEUE,STAGE_OUT,TIME_LIMIT_80", "Nice=7"}},
		"placed": {r.placedWorkers, 1, []string{"NumCPUs=18", "NumTasks=3", "CPUs/Task=6", "MinMemoryCPU=171M", "NtasksPerN:B:S:C=0:0:*:*", "Requeue=0", "Deadline=given", r.switches("Switches=1@00:02:00"), "Licenses=fluent", "MailType=END"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := r.known(t, r.bed.launcher(), test.spec("by-command")), r.known(t, r.launcher(t), test.spec("by-rest"))
			if !slices.Equal(a, b) || len(a) != 2*test.parts {
				t.Errorf("by sbatch:\n%s\nby slurmrestd:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
			}
			all := strings.Join(b, " ") + " "
			for _, word := range test.knows {
				if word != "" && !strings.Contains(all, word+" ") {
					t.Errorf("Slurm does not know %s of\n%s", word, strings.Join(b, "\n"))
				}
			}
		})
	}
}

// known is what squeue and scontrol print for each part of a cluster's job, without names, ids and times, which differ between jobs.
func (r *restd) known(t *testing.T, l *slurm.Launcher, s *spec.ClusterSpec) []string {
	t.Helper()
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.removed(t, l, id)
	out, err := r.Slurm(t.Context(), "squeue", "--noheader", "--sort=i", "--name="+s.Name, "--format=%A %C|%D|%m|%b|%l|%P|%r|%T|%x|%n|%h|%k")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.SplitSeq(strings.ReplaceAll(out, "name="+s.Name, "name=X"), "\n") {
		job, line, _ := strings.Cut(line, " ")
		line, _, _ = strings.Cut(line, " nonce=") // another one each time
		shown, err := r.Slurm(t.Context(), "scontrol", "--oneliner", "show", "job", job)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.ReplaceAll(line, "gres/gpu:", "gres:gpu:"), strings.Join(sizes(shown), " "))
	}
	return lines
}

// sizes are the fields of scontrol with a job's size and its distribution over nodes.
func sizes(shown string) (out []string) {
	for word := range strings.FieldsSeq(shown) {
		name, _, _ := strings.Cut(word, "=")
		switch name {
		case "NumNodes", "NumCPUs", "NumTasks", "CPUs/Task", "TRES", "ReqTRES", "NtasksPerN:B:S:C", "MinCPUsNode", "MinMemoryCPU", "MinMemoryNode", "OverSubscribe", "Exclusive", "Switches", "Requeue",
			"Licenses", "WCKey", "MailUser", "MailType", "Nice":
			out = append(out, word)
		case "Deadline":
			if word != "Deadline=N/A" {
				out = append(out, "Deadline=given")
			}
		}
	}
	return out
}
