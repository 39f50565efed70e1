package config

import (
	"fmt"
	"testing"

	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// TestOtherNames: what other tools call a flag is accepted.
func TestOtherNames(t *testing.T) {
	f := newFixture(t, map[string]string{"rayctl.yaml": "workers: [{name: a, replicas: 2}]\nsecrets: [A]\n", "none/x": ""})
	l := f.must("", "--timeout", "5m", "--cpus", "2", "--memory", "1Gi", "--gpus", "1", "--retries", "3", "--workers", "3:5", "--max-workers", "a=6", "--secret", "A", "--secret", "B",
		"--launcher", "Slurm", "--partition", "gpu", "--set", "launcher=sbatch")
	got := fmt.Sprint(groupValues(t, l), l.Spec.Lifetime.Max, l.Spec.Job.Restarts.Driver, l.Spec.Secrets, slurmspec.Of(l.Spec).Partition, l.Spec.Launcher)
	if want := "workers.a.replicas=3 workers.a.minReplicas=3 workers.a.maxReplicas=6 workers.a.cpus=2 workers.a.memory=1Gi workers.a.gpus=15m 3 [{A  <nil>} {B  <nil>}]gpuslurm"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
