package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm/script"
)

// Partitions implements Controller.
func (c Commands) Partitions(ctx context.Context) ([]script.Partition, error) {
	out, err := Run(ctx, c.Runner, c.clean("scontrol", "--all", "--oneliner", "show", "partitions")...)
	if err != nil {
		return nil, err
	}
	return parsePartitions(out)
}

// parsePartitions reads scontrol's lines: "PartitionName=main AllowGroups=ALL ... MaxNodes=2 MaxTime=1-00:00:00 ...".
func parsePartitions(out string) (parts []script.Partition, err error) {
	for line := range strings.Lines(out) {
		values := map[string]string{}
		for _, field := range strings.Fields(line) {
			name, value, _ := strings.Cut(field, "=")
			values[name] = value
		}
		if values["PartitionName"] == "" {
			continue // what --clusters puts before them, and a site without a partition
		}
		part := script.Partition{Name: values["PartitionName"], Default: values["Default"] == "YES"}
		if part.Nodes, err = strconv.Atoi(values["TotalNodes"]); err != nil {
			return nil, fmt.Errorf("scontrol's answer on partition %s has no number of nodes: %w", part.Name, err)
		}
		if most, err := strconv.Atoi(values["MaxNodes"]); err == nil { // else UNLIMITED
			part.Nodes = min(part.Nodes, most)
		}
		if part.Time, err = slurmDuration(values["MaxTime"]); err != nil {
			return nil, fmt.Errorf("scontrol's answer on partition %s: %w", part.Name, err)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// slurmDuration reads [DAYS-]HOURS:MINUTES:SECONDS, as Slurm's commands print time limits. UNLIMITED is 0.
func slurmDuration(text string) (time.Duration, error) {
	if text == "UNLIMITED" || text == "INFINITE" {
		return 0, nil
	}
	if strings.Count(text, ":") != 2 {
		return 0, fmt.Errorf("%q is not a time limit", text)
	}
	return units.ParseDuration(text)
}

// Partitions implements Controller.
func (r *REST) Partitions(ctx context.Context) ([]script.Partition, error) {
	answer, err := r.list(ctx, "/partitions")
	if err != nil {
		return nil, err
	}
	return parseJSONPartitions(answer)
}

// parseJSONPartitions reads slurmrestd's: 22.05 has numbers of which -1 is no limit, later ones objects. None shows reliably which partition is the default.
func parseJSONPartitions(b []byte) ([]script.Partition, error) {
	var doc struct {
		Partitions []struct {
			Name     string
			Flags    []string
			Total    int             `json:"total_nodes"`           // 22.05
			MaxNodes int             `json:"maximum_nodes_per_job"` // 22.05
			MaxTime  int             `json:"max_time_limit"`        // 22.05
			Nodes    json.RawMessage // 22.05: their names
			Maximums struct{ Nodes, Time number }
		}
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("the answer of Slurm is not the JSON it documents: %w", err)
	}
	var parts []script.Partition
	for _, p := range doc.Partitions {
		var nodes struct{ Total int }
		_ = json.Unmarshal(p.Nodes, &nodes) // 22.05's text is no object
		part := script.Partition{Name: p.Name, Default: slices.Contains(p.Flags, "default") || slices.Contains(p.Flags, "DEFAULT"), Nodes: max(p.Total, nodes.Total)}
		if most := max(p.MaxNodes, int(p.Maximums.Nodes)); most > 0 {
			part.Nodes = min(part.Nodes, most)
		}
		part.Time = time.Duration(max(p.MaxTime, int(p.Maximums.Time), 0)) * time.Minute
		parts = append(parts, part)
	}
	return parts, nil
}
