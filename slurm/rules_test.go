//go:build linux

package slurm_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// rules are a site's own (job_submit.lua): a partition takes jobs with a project as their comment, a wckey and a licence only, and its plugin
// writes a comment of its own.
const rules = `
function slurm_job_submit(job, partitions, uid)
	if job.partition ~= "ruled" then return slurm.SUCCESS end
	if job.comment == "timed" and job.time_limit == slurm.NO_VAL then return slurm.ESLURM_MISSING_TIME_LIMIT end -- as job_submit/require_timelimit does
	if job.comment ~= "project-7" then
		slurm.log_user("say which project it is for: --comment=project-NUMBER")
		return slurm.ERROR
	end
	if job.wckey ~= "w" or job.licenses ~= "fluent:2" then
		slurm.log_user("--wckey and --licenses are missing")
		return slurm.ERROR
	end
	if job.min_mem_per_node or job.min_mem_per_cpu then
		slurm.log_user("do not request memory: it goes with the CPUs")
		return slurm.ERROR
	end
	job.comment = "billed to 7"
	return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end
return slurm.SUCCESS
`

// bothNodes waits for the node that has a job of its own, to which the rules apply as well.
const bothNodes = `import ray, time
ray.init(log_to_driver=False, logging_level="ERROR")
while len(ray.nodes()) < 2:
    time.sleep(0.2)
print("under rules")`

// rules: what a site requires of jobs is shown in the site's own words, by launches and by doctor, and can be set in the file.
func (b *bed) rules(t *testing.T) {
	l := b.launcher()
	asks := func(comment string, args ...string) *spec.ClusterSpec {
		s := b.named("ruled", "python -c "+shellescape.Quote(bothNodes))
		none, one := 0, 1
		s.Workers = []spec.WorkerGroup{{Name: "w", Replicas: &one, MinReplicas: &none, MaxReplicas: &one, NodeResources: small()}}
		s.Sections = slurmspec.In(&slurmspec.Section{Comment: comment, Group: slurmspec.Group{Partition: "ruled", ExtraArgs: args}})
		return s
	}
	allowed := []string{"--wckey=w", "--licenses=fluent:2", "--mail-type=END"}
	whole, none := asks("project-7", allowed...), false
	slurmspec.Of(whole).RequestMemory = &none
	for words, s := range map[string]*spec.ClusterSpec{
		"say which project it is for": asks(""), "--licenses are missing": asks("project-7", "--wckey=w"),
		"Invalid license specification": asks("project-7", "--wckey=w", "--licenses=nosuch:2"), "Time limit specification required": asks("timed"),
		"do not request memory": asks("project-7", allowed...),
	} {
		next := "slurm.extraArgs"
		if words == "Time limit specification required" {
			next = "set lifetime.max"
		}
		if words == "Invalid license specification" {
			slurmspec.Of(s).Partition = "main"
		}
		_, err := l.Launch(t.Context(), s, launcher.Payload{})
		if launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), next) {
			t.Errorf("%v (code %d), want %q", err, launcher.ExitCode(err), words)
		}
		b.nothingLeft(t, "ruled")
		checks := l.Check(t.Context(), s)
		if bad := failing(checks); !slices.Equal(bad, []string{"request"}) || !strings.Contains(checks[len(checks)-1].Hint, next) {
			t.Errorf("doctor finds %q: %+v", bad, checks)
		}
	}
	if bad := failing(l.Check(t.Context(), whole)); len(bad) > 0 {
		t.Errorf("doctor finds %q", bad)
	}
	r := b.begin(t, whole, launcher.Payload{})
	r.ended(0, "succeeded", "")
	if r.out.String() != "under rules\n" {
		t.Errorf("output %q", r.out.String())
	}
	r.forgotten()
}

// failing are the checks that fail.
func failing(checks []launcher.Check) (out []string) {
	for _, c := range checks {
		if !c.OK {
			out = append(out, c.Name)
		}
	}
	return out
}

// otherCluster: the login node belongs to another cluster than the one that is meant, as where several share an accounting database. Its own
// controller is nobody: whatever asked it would fail.
func (b *bed) otherCluster(t *testing.T) {
	conf, err := os.ReadFile(b.Cluster.Dir + "/etc/slurm.conf")
	if err != nil {
		t.Fatal(err)
	}
	front := b.Cluster.Dir + "/etc/front.conf"
	text := strings.NewReplacer("ClusterName=testbed", "ClusterName=front", "SlurmctldPort=6817", "SlurmctldPort=1").Replace(string(conf))
	if err := os.WriteFile(front, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	other := *b
	other.Env = append(slices.Clone(b.Env), "SLURM_CONF="+front)
	l := slurm.New(slurm.Config{Runner: other.beside, Dir: b.Dir(), Cluster: "testbed"})
	defer l.Close()
	s := b.named("elsewhere", "echo over there; exec sleep 600")
	s.Sections = slurmspec.In(&slurmspec.Section{Cluster: "testbed", Group: slurmspec.Group{Account: "users"}})
	if bad := failing(l.Check(t.Context(), s)); len(bad) > 0 {
		t.Errorf("doctor finds %q: %+v", bad, l.Check(t.Context(), s))
	}
	r := b.beginBy(t, l, s, launcher.Payload{})
	r.until("running", jobRuns)
	b.copied(t, r.id, "over there\n")
	if via, err := answers(t.Context(), l, r.id, launcher.Keeper); err != nil || !strings.Contains(via, "srun --overlap") {
		t.Errorf("by %q, %v", via, err)
	}
	b.down(t, l, r.id)
	r.ended(runstate.CodeInterrupted, "down", "")
	r.forgotten()
}
