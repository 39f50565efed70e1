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

// ownRequests are those of Slurm's daemons among themselves, and of this package.
var ownRequests = regexp.MustCompile(`^(REQUEST_STATS_INFO|REQUEST_PING|MESSAGE_.*|REQUEST_COMPLETE_.*|REQUEST_STEP_COMPLETE|ACCOUNTING_.*|.*_NODE_REGISTRATION_STATUS|REQUEST_CONFIG|REQUEST_PERSIST_INIT)$`)

var rpcLine = regexp.MustCompile(`^\s*(\w+)\s*\(\s*\d+\)\s*count:(\d+)`)

// Requests are those that clients have sent to slurmctld since it started or ResetRequests, by type, as sdiag counts them.
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

// Orders are those of Requests that are no questions: clients and watchers ask now and then, however often that is.
func (c *Cluster) Orders(ctx context.Context) (map[string]int, error) {
	counts, err := c.Requests(ctx)
	maps.DeleteFunc(counts, func(kind string, _ int) bool { return strings.Contains(kind, "_INFO") })
	return counts, err
}

// ResetRequests lets Requests count from here on.
func (c *Cluster) ResetRequests(ctx context.Context) error {
	_, err := c.Slurm(ctx, "sdiag", "--reset")
	return err
}
