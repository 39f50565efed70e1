//go:build linux

package slurmtest

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// siblingPort is where the sibling's slurmctld listens.
const siblingPort = 6827

// sibling is the other cluster of a federation.
const sibling = "sibling"

// Federate starts a second slurmctld, of a cluster whose only node is down, and joins the two clusters in a federation: what is submitted to one of them has a copy
// that waits in the other. Needs Options.Accounting. It returns the name of the other cluster.
func (c *Cluster) Federate(ctx context.Context) (string, error) {
	conf := c.Dir + "/etc/sibling.conf"
	if err := c.siblingConf(conf); err != nil {
		return "", err
	}
	var names []string
	for _, u := range c.users {
		names = append(names, u.Name)
	}
	for _, args := range [][]string{
		{"add", "cluster", sibling},
		{"add", "account", "users", "cluster=" + sibling},
		{"add", "user", strings.Join(names, ","), "account=users", "cluster=" + sibling},
	} {
		if err := c.Sacctmgr(args...); err != nil {
			return "", err
		}
	}
	if err := c.spawn("", "slurmctld-sibling", []string{"SLURM_CONF=" + conf}, "slurmctld", "-D", "-f", conf); err != nil {
		return "", err
	}
	err := await(ctx, startInterval, "the sibling to answer", func() (bool, error) {
		if !c.listens(ctx, fmt.Sprintf("ctl:%d", siblingPort)) {
			return false, nil
		}
		_, err := c.run(client("sinfo"), "--noheader", "--clusters="+sibling)
		return err == nil, err
	})
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, c.logTail("slurmctld-sibling.log", 10))
	}
	if err := c.Sacctmgr("add", "federation", "both", "clusters=testbed,"+sibling); err != nil {
		return "", err
	}
	return sibling, await(ctx, queryInterval, "the federation", func() (bool, error) {
		out, err := c.run(client("scontrol"), "show", "federation")
		if err == nil {
			err = fmt.Errorf("it is %q", out)
		}
		return strings.Contains(out, "PersistConnSend/Recv:Yes/Yes"), err
	})
}

// siblingConf writes the sibling's slurm.conf: the cluster's own with another name and port and other files, and one node that nobody has.
func (c *Cluster) siblingConf(path string) error {
	conf, err := os.ReadFile(c.Conf())
	if err != nil {
		return err
	}
	state := c.Dir + "/state-sibling"
	if err := os.Mkdir(state, 0o755); err != nil {
		return err
	}
	text := strings.NewReplacer("ClusterName=testbed", "ClusterName="+sibling, fmt.Sprintf("SlurmctldPort=%d", ctldPort), fmt.Sprintf("SlurmctldPort=%d", siblingPort),
		"StateSaveLocation="+c.Dir+"/state", "StateSaveLocation="+state, "/run/slurmctld.pid", "/run/slurmctld-sibling.pid", "/log/slurmctld.log", "/log/slurmctld-sibling.log").Replace(string(conf))
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "NodeName=") && !strings.HasPrefix(line, "PartitionName=") {
			b.WriteString(line)
		}
	}
	b.WriteString("NodeName=nobody NodeAddr=192.0.2.1 CPUs=16 RealMemory=64000 State=DOWN\nPartitionName=main Nodes=ALL Default=YES State=UP\n")
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
