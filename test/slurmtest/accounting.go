//go:build linux

package slurmtest

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// startAccounting starts MariaDB and slurmdbd, and adds the cluster, an account "users" and the users.
func (c *Cluster) startAccounting(ctx context.Context) error {
	if err := c.startDatabase(ctx); err != nil {
		return err
	}
	socket := "MYSQL_UNIX_PORT=" + c.Dir + "/db/run/my.sock" // slurmdbd.conf cannot name a socket
	if err := c.spawn("", "slurmdbd", []string{socket}, "slurmdbd", "-D"); err != nil {
		return err
	}
	err := await(ctx, startInterval, "slurmdbd to answer", func() (bool, error) {
		if !c.listens(ctx, "ctl:6819") {
			return false, nil
		}
		_, err := c.run(client("sacctmgr"), "-n", "list", "cluster")
		return err == nil, err
	})
	if err != nil {
		return err
	}
	names := make([]string, len(c.users))
	for i, u := range c.users {
		names[i] = u.Name
	}
	for _, args := range [][]string{
		{"add", "cluster", "testbed"},
		{"add", "account", "users"},
		{"add", "user", strings.Join(names, ","), "account=users"},
	} {
		if err := c.Sacctmgr(args...); err != nil {
			return err
		}
	}
	return nil
}

// Sacctmgr changes accounting as the administrator: Sacctmgr("add", "qos", "short", "set", "MaxWall=1").
func (c *Cluster) Sacctmgr(args ...string) error {
	out, err := c.run(append([]string{client("sacctmgr"), "-i"}, args...)...)
	if err != nil && !strings.Contains(out, "Nothing new added") && !strings.Contains(out, "already exists") {
		return err
	}
	return nil
}

func (c *Cluster) startDatabase(ctx context.Context) error {
	db, base := c.Dir+"/db", prefix+"/usr"
	install := []string{base + "/bin/mariadb-install-db", "--no-defaults", "--basedir=" + base, "--datadir=" + db + "/data",
		"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--cross-bootstrap"}
	if os.Getuid() == 0 {
		install = append(install, "--user=root")
	}
	if _, err := c.run(install...); err != nil {
		return err
	}
	argv := []string{"mariadbd", "--no-defaults", "--basedir=" + base, "--datadir=" + db + "/data", "--socket=" + db + "/run/my.sock",
		"--pid-file=" + db + "/run/my.pid", "--log-error=" + c.Dir + "/log/mariadb.log", "--skip-networking", "--skip-name-resolve",
		"--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M", "--innodb-lock-wait-timeout=900",
		"--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", "--performance-schema=OFF", "--lc-messages-dir=" + base + "/share/mysql"}
	if os.Getuid() == 0 {
		argv = append(argv, "--user=root")
	}
	if err := c.spawn("", "mariadbd", nil, argv...); err != nil {
		return err
	}
	const grants = "create database if not exists slurm_acct_db; create user if not exists slurm@localhost identified by 'slurm'; " +
		"grant all on slurm_acct_db.* to slurm@localhost"
	err := await(ctx, startInterval, "MariaDB", func() (bool, error) {
		_, err := c.run(prefix+"/daemons/mariadb", "--no-defaults", "--socket="+db+"/run/my.sock", "-u", "root", "-e", grants)
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, c.logTail("mariadb.log", 5))
	}
	return nil
}

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
