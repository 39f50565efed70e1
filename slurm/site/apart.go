package site

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// reachHint is the next step where nodes of two partitions do not reach each other.
const reachHint = "Ray's nodes must reach one another: choose another partition for the head, set slurm.network to a network that both have, or ask your site's administrators to let them connect"

// Remembered is how long a launch is refused for what doctor found: a site may have changed since then.
const remembered = 7 * 24 * time.Hour

// apart is what doctor found last about two partitions whose nodes do not reach each other. Only jobs on nodes can find that, so a launch, which would wait for
// its gang first, has it from a file in slurm.dir.
type apart struct {
	At    time.Time
	Fault string
}

// Apart refuses a cluster whose partitions do not reach each other, as far as doctor has found that.
func (site *Site) Apart(ctx context.Context, s *spec.ClusterSpec) error {
	file, err := site.apartFile(ctx, s)
	if err != nil || file == "" {
		return err
	}
	files, err := site.Runs.Files.Read(ctx, file)
	if err != nil {
		return site.Runs.Unreachable(err)
	}
	var found apart
	if err := json.Unmarshal(files[file].Data, &found); err != nil || time.Since(found.At) > remembered {
		return nil // there is no finding
	}
	return launcher.Fail(runstate.CodeSpec, nil, reachHint+"; if that is done, `rayctl doctor` tests it again", "`rayctl doctor` found at %s that %s", launcher.Stamp(found.At), found.Fault)
}

// remember keeps doctor's finding for the launches that follow; no fault: the one before does not hold any more.
func (site *Site) remember(ctx context.Context, s *spec.ClusterSpec, fault string) {
	file, err := site.apartFile(ctx, s)
	if err == nil && fault == "" {
		err = site.Runs.Files.Remove(ctx, file)
	} else if err == nil {
		err = site.Runs.Files.WriteJSON(ctx, file, apart{time.Now(), fault}, false)
	}
	if err != nil {
		site.Log.Warn("what doctor found is not kept for launches", "error", err)
	}
}

// apartFile is the file about the partitions of a cluster's head and workers, by all that decides which nodes and which network they have; "" where they have one.
func (site *Site) apartFile(ctx context.Context, s *spec.ClusterSpec) (string, error) {
	head, workers := partitioned(s)
	if workers == nil || slurmspec.InCurrent(s) {
		return "", nil
	}
	dir, _, err := site.Runs.Locate(ctx)
	if err != nil {
		return "", err
	}
	section, key := slurmspec.Of(s), sha256.New()
	for _, g := range []*spec.NodeGroup{head, workers} {
		nodes := slurmspec.For(s, *g)
		_, err = fmt.Fprintf(key, "%q %q %q ", nodes.Partition, nodes.Nodelist, nodes.Constraint)
	}
	_, other := fmt.Fprintf(key, "%q %q", section.Cluster, section.Network)
	return path.Join(dir, fmt.Sprintf(".apart-%x.json", key.Sum(nil)[:8])), errors.Join(err, other)
}

// SharedPartition describes what it means that an early head is in its workers' partition; "" if it is not. Partitions that Slurm's answer does not name are compared by the names
// in the file.
func (site *Site) SharedPartition(ctx context.Context, s *spec.ClusterSpec) string {
	if !s.Head.Early || slurmspec.InCurrent(s) {
		return ""
	}
	all, err := site.Partitions(ctx)
	if err != nil {
		site.Log.Debug("it is not known which partition is the default", "error", err)
	}
	groups := s.NodeGroups()
	of := func(g spec.NodeGroup) string {
		names := slurmspec.For(s, g).Partition
		if found := script.PartitionsOf(names, all); names == "" && len(found) == 1 {
			return found[0].Name
		}
		return names
	}
	for _, g := range groups[1:] {
		if g.Max > 0 && of(g) != of(groups[0]) {
			return ""
		}
	}
	return "the early head uses the workers' partition: it waits in the same queue, and may use a node with GPUs; head.slurm.partition chooses another partition"
}
