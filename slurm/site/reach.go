package site

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// reachDir is the directory in which the two nodes of checkReach exchange their addresses. A file overFile in it ends both steps
// (keeper/rayctl_keeper/slurm/doctor/reach.py).
const reachDir, overFile = "reach", "over"

// checkReach checks that a node of the head's partition and a node of the workers' partition can connect to each other, if these partitions differ. The directory of
// the plan has the programs for that. If an early head uses the workers' partition, the check reports the consequences instead.
func (site *Site) checkReach(ctx context.Context, p script.Plan) []launcher.Check {
	if shared := site.SharedPartition(ctx, p.Spec); shared != "" {
		return []launcher.Check{check("head", shared, nil, "")}
	}
	head, workers := partitioned(p.Spec)
	if workers == nil {
		return nil
	}
	name := fmt.Sprintf("from %s to %s", named(p.Spec, *head), named(p.Spec, *workers))
	dir := path.Join(p.Run, reachDir)
	if err := site.Runs.Files.WriteBytes(ctx, path.Join(dir, "begun"), nil); err != nil {
		return []launcher.Check{check(name, "", site.Runs.Unreachable(err), "set slurm.dir to a directory in which there is room")}
	}
	type answer struct {
		out string
		err error
	}
	listened := make(chan answer, 1)
	go func() {
		out, err := site.reach(ctx, p, *head, "listen", dir)
		site.endReach(ctx, dir)
		listened <- answer{out, err}
	}()
	out, err := site.reach(ctx, p, *workers, "connect", dir)
	site.endReach(ctx, dir)
	other := <-listened
	for _, err := range []error{err, other.err} {
		switch {
		case err != nil && busy(err):
			return []launcher.Check{check(name, "not checked: one of the two partitions had no free node", nil, "")}
		case err != nil:
			return []launcher.Check{check(name, "", err, "try again, or look at slurm.partition, slurm.account and slurm.qos")}
		}
	}
	said, text, _ := strings.Cut(strings.TrimSpace(cmp.Or(strings.TrimSpace(out), other.out)), " ") // if one side could not begin, that side printed the reason
	if said == "" {
		text = "the two nodes did not find each other's files in slurm.dir in time"
	}
	fault := text
	if said == "ok" {
		fault = ""
	}
	site.remember(ctx, p.Spec, fault)
	return []launcher.Check{finding(name, said == "ok", text, fault, reachHint)}
}

// reach runs one side of the check, listen or connect, on a node of a group.
func (site *Site) reach(ctx context.Context, p script.Plan, g spec.NodeGroup, side, dir string) (string, error) {
	section := slurmspec.Of(p.Spec)
	argv := append(freeNode(p, g, 1), "--nodes=1", "--ntasks=1")
	argv = append(argv, p.OnHost(p.HostPython(), "-E", "-s", path.Join(p.Run, keeperzip.File), script.RoleReach, side, dir, section.Network, section.Ports)...)
	return site.run(ctx, remote.CleanWith(section.KeepEnv, argv...)...)
}

// endReach ends the side that still waits for the other one. Without it that side ends later, by its own time limit.
func (site *Site) endReach(ctx context.Context, dir string) {
	if err := site.Runs.Files.WriteBytes(ctx, path.Join(dir, overFile), nil); err != nil {
		site.Log.Debug("a step of doctor ends later", "error", err)
	}
}

// partitioned returns the head's group and the first group with another partition; other is nil if there is none.
func partitioned(s *spec.ClusterSpec) (head, other *spec.NodeGroup) {
	groups := s.NodeGroups()
	of := slurmspec.For(s, groups[0]).Partition
	for i, g := range groups[1:] {
		if g.Max > 0 && slurmspec.For(s, g).Partition != of {
			return &groups[0], &groups[1+i]
		}
	}
	return &groups[0], nil
}

// named names a group's partition in a sentence.
func named(s *spec.ClusterSpec, g spec.NodeGroup) string {
	if partition := slurmspec.For(s, g).Partition; partition != "" {
		return "partition " + partition
	}
	return "the default partition"
}
