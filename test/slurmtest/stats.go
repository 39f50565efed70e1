//go:build linux

package slurmtest

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
)

// ownRequests matches requests among Slurm's daemons, and of this package.
var ownRequests = regexp.MustCompile(`^(REQUEST_STATS_INFO|REQUEST_PING|MESSAGE_.*|REQUEST_COMPLETE_.*|REQUEST_STEP_COMPLETE|ACCOUNTING_.*|.*_NODE_REGISTRATION_STATUS|REQUEST_CONFIG|REQUEST_PERSIST_INIT)$`)

var rpcLine = regexp.MustCompile(`^\s*(\w+)\s*\(\s*\d+\)\s*count:(\d+)`)

// Requests counts clients' requests to slurmctld by type, since its start or ResetRequests, from sdiag.
func (c *Cluster) Requests(ctx context.Context) (map[string]int, error) {
	out, err := c.Slurm(ctx, "sdiag")
	if err != nil {
		return nil, err
	}
	_, types, ok := strings.Cut(out, "statistics by message type")
	types, _, more := strings.Cut(types, "statistics by user")
	if !ok || !more {
		return nil, fmt.Errorf("sdiag printed %q", out)
	}
	counts := map[string]int{}
	for line := range strings.Lines(types) {
		if m := rpcLine.FindStringSubmatch(line); m != nil && !ownRequests.MatchString(m[1]) {
			counts[m[1]], _ = strconv.Atoi(m[2])
		}
	}
	return counts, nil
}

// Orders are the Requests that are not queries, which clients and watchers repeat an arbitrary number of times.
func (c *Cluster) Orders(ctx context.Context) (map[string]int, error) {
	counts, err := c.Requests(ctx)
	maps.DeleteFunc(counts, func(kind string, _ int) bool { return strings.Contains(kind, "_INFO") })
	return counts, err
}

// ResetRequests resets the counts of Requests.
func (c *Cluster) ResetRequests(ctx context.Context) error {
	_, err := c.Slurm(ctx, "sdiag", "--reset")
	return err
}
