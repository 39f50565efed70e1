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
