//go:build linux

package slurm_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/rundir"
	"github.com/rayctl/rayctl/slurm/script"
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

// companion: Slurm's record of the job of nodes, or of an early head's gang, is the same whether sbatch or a client of slurmrestd submitted what the keeper offers.
func (r *restd) companion(t *testing.T) {
	release := r.occupy(t)
	defer release()
	s, l := r.early("rest-more", "", "true"), r.launcher(t)
	none, two, most, yes := 0, 2, 3, true
	s.Lifetime.Max, s.Head.Sections = units.Limit(time.Hour), slurmspec.GroupIn(&slurmspec.Group{Partition: "main"})
	s.Workers[0].Replicas, s.Workers[0].GPUs, s.Workers[0].GPUType = &two, 1, "h100"
	s.Workers[1].Replicas, s.Workers[1].MinReplicas, s.Workers[1].MaxReplicas = &none, &none, &most
	s.Workers[1].Sections = slurmspec.GroupIn(&slurmspec.Group{Exclusive: &yes, Partition: "main", Exclude: "node1", ExtraArgs: []string{"--wckey=project", "--nice=7"}})
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.removed(t, l, id)
	root := rundir.NewRoot(rundir.Config{Runner: r.beside, Dir: r.Dir(), Script: script.File})
	defer root.Files.Close()
	run, err := root.Run(t.Context(), s.Name)
	if err == nil {
		err = run.Look(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	name, place := script.CompanionName(run.Record.Spec, run.Record.Nonce), run.Path("1")
	argv := func(nodes, file string, more ...string) []string {
		options := []string{"--job-name=" + name, "--output=" + place + "/nodes/" + nodes + "/companion.7.out", "--open-mode=append", "--chdir=" + run.Dir, "--no-requeue"}
		return slices.Concat(options, more[:len(more)-2], []string{run.Path(file), place}, more[len(more)-2:])
	}
	for what, offer := range map[string][]string{
		"array": argv("b-%a", script.CompanionFile("b"), "--comment=rayctl nodes of b", "--array=0,2", "--time=30", "--signal=B:USR1@60", "b-0", "7"),
		"one":   argv("b-1", script.CompanionFile("b"), "--comment=rayctl node b-1", "--signal=B:USR1@60", "b-1", "7"),
		"gang":  argv(keeper.Gang, script.GangFile, keeper.Gang, "7"),
	} {
		t.Run(what, func(t *testing.T) {
			batch := controller.Batch{Plan: script.PlanOf(run, 0), Argv: offer, Environment: []string{"PATH=/usr/bin:/bin"}}
			text, err := os.ReadFile(offer[slices.IndexFunc(offer, func(a string) bool { return a[0] == '/' })])
			if err != nil {
				t.Fatal(err)
			}
			batch.Text = string(text)
			var known [2]string
			for i, by := range []controller.Controller{controller.Commands{Runner: r.beside}, controller.NewREST(r.url, r.tokenFile)} {
				job, err := by.Submit(t.Context(), batch)
				if err != nil {
					t.Fatal(err)
				}
				known[i] = r.knownOf(t, job, text)
				if err := by.Cancel(t.Context(), job, false); err != nil {
					t.Error(err)
				}
			}
			if known[0] != known[1] || !strings.Contains(known[0], name) {
				t.Errorf("by sbatch:\n%s\nby slurmrestd:\n%s", known[0], known[1])
			}
		})
	}
}

// knownOf is what squeue and scontrol print of a job, without ids and times. Its script is the same but for the arguments.
func (r *restd) knownOf(t *testing.T, job int, script []byte) string {
	t.Helper()
	id := strconv.Itoa(job)
	out, err := r.Slurm(t.Context(), "squeue", "--noheader", "--sort=i", "--jobs="+id, "--format=%j|%K|%C|%D|%m|%b|%l|%P|%T|%x|%n|%h|%k|%Z")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := r.Slurm(t.Context(), "scontrol", "--oneliner", "show", "job", id)
	if err != nil {
		t.Fatal(err)
	}
	for word := range strings.FieldsSeq(shown) {
		if strings.HasPrefix(word, "StdOut=") {
			out += "\n" + word
		}
	}
	written, err := r.Slurm(t.Context(), "scontrol", "write", "batch_script", id, "-")
	if err != nil {
		t.Fatal(err)
	}
	_, command, _ := strings.Cut(string(script), "\nexec ")
	if !strings.Contains(written, "\nexec "+strings.TrimSpace(command)) {
		t.Errorf("the script of job %d:\n%s", job, written)
	}
	return strings.ReplaceAll(out, "gres/gpu:", "gres:gpu:") + "\n" + strings.Join(sizes(shown), " ")
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
