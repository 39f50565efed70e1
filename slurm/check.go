package slurm

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

var _ launcher.Checker = (*Launcher)(nil)

// Check examines the way to Slurm, the partition, slurm.dir, and on one node that it sees the same directory and has Ray.
func (l *Launcher) Check(ctx context.Context, s *spec.ClusterSpec) []launcher.Check {
	s = prepare(s)
	version, err := l.site.run(ctx, "sinfo", "--version")
	checks := []launcher.Check{check("slurm commands", strings.TrimSpace(version)+" on "+l.site.runner.String(), err, "set slurm.host to a login node, or put Slurm's commands into PATH")}
	if err != nil {
		return checks
	}
	partitions, err := l.site.run(ctx, "sinfo", "--noheader", "--format=%R")
	checks = append(checks, check("controller", "it answers", err, "ask your site's administrators"))
	if err != nil {
		return checks
	}
	checks = append(checks, checkPartition(s.Slurm.Partition, strings.Fields(partitions)))
	dir, _, err := l.arrive(ctx)
	probe := path.Join(dir, ".doctor")
	if err == nil {
		err = l.site.files.writeBytes(ctx, probe, []byte("ok"))
	}
	checks = append(checks, check("slurm.dir", dir, err, "set slurm.dir to a directory that you may write to and that all nodes share"))
	if err != nil {
		return checks
	}
	defer func() { _ = l.site.files.remove(context.WithoutCancel(ctx), probe) }() // a file of two bytes
	return append(checks, l.checkNode(ctx, s, probe)...)
}

func check(name, detail string, err error, hint string) launcher.Check {
	if err != nil {
		return launcher.Check{Name: name, Detail: err.Error(), Hint: hint}
	}
	return launcher.Check{Name: name, OK: true, Detail: detail}
}

func checkPartition(wanted string, there []string) launcher.Check {
	c := launcher.Check{Name: "partition", OK: true, Detail: "Slurm's default"}
	if wanted == "" {
		return c
	}
	c.Detail = wanted
	for _, name := range strings.Split(wanted, ",") {
		if !slices.Contains(there, name) {
			c.OK, c.Detail, c.Hint = false, "there is no partition "+name, "choose one of "+strings.Join(there, ", ")
		}
	}
	return c
}

// nodeTime is how long doctor waits for a node: none may be free.
const nodeTime = 30

// clockSkew is how far clocks may differ before times in records mislead.
const clockSkew = 5 * time.Second

// checkNode runs one small step on a free node.
func (l *Launcher) checkNode(ctx context.Context, s *spec.ClusterSpec, probe string) []launcher.Check {
	python, err := l.python(ctx, s)
	if err != nil {
		return []launcher.Check{check("node", "", err, "")}
	}
	argv := []string{"srun", "--quiet", "--nodes=1", "--ntasks=1", "--time=1", fmt.Sprintf("--immediate=%d", nodeTime), "--mpi=none", "--job-name=rayctl-doctor"}
	g := s.SlurmFor(s.NodeGroups()[0])
	for _, o := range [][2]string{{"--partition=", g.Partition}, {"--account=", g.Account}, {"--qos=", g.QOS}} {
		if o[1] != "" {
			argv = append(argv, o[0]+o[1])
		}
	}
	out, err := l.site.run(ctx, append(argv, "sh", "-c", `date +%s; cat "$1"; echo; "$2" -c 'import ray; print(ray.__version__)' 2>&1 | tail -n 1`, "sh", probe, python)...)
	if err != nil {
		return []launcher.Check{check("node", "", err, "no node may be free at the moment; try again, or look at slurm.partition, slurm.account and slurm.qos")}
	}
	lines := append(strings.Split(out, "\n"), "", "", "")
	checks := []launcher.Check{{Name: "slurm.dir on a node", OK: lines[1] == "ok", Detail: path.Dir(probe)}, {Name: "Ray on a node", OK: true, Detail: lines[2]}}
	if lines[1] != "ok" {
		checks[0].Hint = "set slurm.dir to a directory that all nodes share"
	}
	if _, err := strconv.Atoi(strings.Split(lines[2], ".")[0]); err != nil {
		checks[1].OK, checks[1].Hint = false, "set ray.python to an interpreter that has Ray, or bring it by slurm.modules or setup, which this check does not run"
	}
	return append(checks, checkClock(lines[0]))
}

func checkClock(text string) launcher.Check {
	seconds, err := strconv.ParseInt(text, 10, 64)
	c := check("clock", "it agrees with this machine's", err, "")
	if skew := time.Since(time.Unix(seconds, 0)).Abs(); err == nil && skew > clockSkew+nodeTime*time.Second {
		c.OK, c.Detail, c.Hint = false, fmt.Sprintf("a node's clock differs by %s", skew.Round(time.Second)), "times in records will mislead; tell your site's administrators"
	}
	return c
}
