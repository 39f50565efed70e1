//go:build linux

package slurmtest

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// randomBytes returns n bytes for a key.
func randomBytes(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return string(b)
}

// etcFiles are the files of /etc that a cluster has itself.
func (c *Cluster) etcFiles() map[string]string {
	files := map[string]string{}
	for _, name := range []string{"hosts", "passwd", "group", "nsswitch.conf", "resolv.conf"} {
		files["/etc/"+name] = filepath.Join(c.Dir, "etc", name)
	}
	for _, path := range c.Options.Etc {
		files[path] = filepath.Join(c.Dir, "etc", ownName(path))
	}
	return files
}

// ownName is what a file of Options.Etc is called among the cluster's.
func ownName(path string) string {
	return strings.ReplaceAll(strings.TrimPrefix(path, "/etc/"), "/", "-")
}

// Change writes a file of Options.Etc, in place: hosts have mounted it.
func (c *Cluster) Change(path, text string) error {
	return os.WriteFile(filepath.Join(c.Dir, "etc", ownName(path)), []byte(text), 0o644)
}

// hostsFile makes all names of the cluster resolve on all its nodes; on node own, unless it is 0, its own name to loopback.
func hostsFile(o Options, own int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "127.0.0.1 localhost\n%s ctl\n%s login\n%s gateway\n", ctlAddress, loginAddress, gatewayAddress)
	for i := 1; i <= o.Nodes; i++ {
		address := nodeAddress(i)
		if i == own {
			address = "127.0.1.1"
		}
		fmt.Fprintf(&b, "%s %s\n", address, nodeName(i))
	}
	return b.String()
}

// resolvConf is empty, so that unknown names fail at once, or has a server that never answers.
func resolvConf(freeze bool) string {
	if freeze {
		return "nameserver " + blackHole + "\n"
	}
	return ""
}

// passwdFile is the machine's own, with the cluster's users and homes, and the user of sshd's privilege separation.
func passwdFile(users []account) string {
	var b strings.Builder
	taken := map[string]bool{}
	for _, u := range users {
		fmt.Fprintf(&b, "%s:x:%d:%d::%s:%s\n", u.Name, u.UID, u.GID, u.Home, u.Shell)
		taken[u.Name] = true
	}
	b.WriteString("sshd:x:61000:65534::/run/sshd:/usr/sbin/nologin\n")
	taken["sshd"] = true
	appendOthers(&b, "/etc/passwd", taken)
	return b.String()
}

// SetShell gives the user who runs the test another login shell, for logins from now on.
func (c *Cluster) SetShell(program string) error {
	c.users[0].Shell = program
	return c.Change("/etc/passwd", passwdFile(c.users))
}

func groupFile(users []account) string {
	var b strings.Builder
	taken := map[string]bool{}
	for _, u := range users[1:] {
		fmt.Fprintf(&b, "%s:x:%d:\n", u.Name, u.GID)
		taken[u.Name] = true
	}
	appendOthers(&b, "/etc/group", taken)
	return b.String()
}

func appendOthers(b *strings.Builder, path string, taken map[string]bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return // without the file the machine has no other users
	}
	for line := range strings.Lines(string(text)) {
		if name, _, _ := strings.Cut(line, ":"); !taken[name] {
			b.WriteString(line)
		}
	}
}

// accountingSettings connect slurmctld to slurmdbd.
func accountingSettings(dir string, o Options) []setting {
	tres := []string{"gres/gpu"}
	for _, g := range o.GPUs {
		tres = append(tres, "gres/gpu:"+g.Type)
	}
	return []setting{
		{"AccountingStorageType", "accounting_storage/slurmdbd"},
		{"AccountingStorageHost", ctlAddress},
		{"AccountingStoragePass", "socket=" + dir + "/run/munge.sock"}, // AuthInfo does not apply to slurmdbd
		{"AccountingStorageEnforce", "associations,limits,qos"},
		{"AccountingStorageTRES", strings.Join(tres, ",")},
		{"PriorityType", "priority/multifactor"},
		{"PriorityCalcPeriod", "1"},
		{"PriorityWeightQOS", "1000"},
	}
}

// slurmdbdConf has no secret password: the database listens only on a socket in the cluster's directory.
func slurmdbdConf(dir, admin string) string {
	return strings.Join([]string{
		"AuthType=auth/munge",
		"AuthInfo=socket=" + dir + "/run/munge.sock",
		"DbdHost=ctl",
		"DbdAddr=" + ctlAddress,
		"SlurmUser=" + admin,
		"LogFile=" + dir + "/log/slurmdbd.log",
		"PidFile=" + dir + "/run/slurmdbd.pid",
		"PluginDir=" + prefix + "/plugins",
		"StorageType=accounting_storage/mysql",
		"StorageHost=localhost",
		"StorageUser=slurm",
		"StoragePass=slurm",
		"StorageLoc=slurm_acct_db",
	}, "\n") + "\n"
}
