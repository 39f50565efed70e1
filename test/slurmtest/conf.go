//go:build linux

package slurmtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Fixed addresses inside the cluster's own network: a /16 with the controller at .0.1 and node i at .1.i.
const (
	ctlAddress     = "10.77.0.1"
	loginAddress   = "10.77.0.2"
	gatewayAddress = "10.77.0.3"
	// ctlStorageAddress is the controller's in the second network.
	ctlStorageAddress = "10.78.0.1"

	blackHole = "192.0.2.53" // documentation network: routed to the controller, which forwards nothing
	ctldPort  = 6817
	restPort  = 6820
)

func nodeAddress(i int) string { return fmt.Sprintf("10.77.1.%d", i) }

// StorageAddress is node i's in the second network, 10.78.0.0/16.
func StorageAddress(i int) string { return fmt.Sprintf("10.78.1.%d", i) }

func nodeName(i int) string { return fmt.Sprintf("node%d", i) }

// setting is one line of slurm.conf; order is kept so that the file reads well.
type setting struct{ key, value string }

// slurmConf renders slurm.conf. Waits are short where Slurm allows it; other settings have Slurm's defaults.
func slurmConf(dir string, o Options, admin string) string {
	settings := []setting{
		{"ClusterName", "testbed"},
		{"SlurmctldHost", "ctl(" + ctlAddress + ")"},
		{"SlurmctldPort", fmt.Sprint(ctldPort)},
		{"SlurmUser", admin},
		{"SlurmdUser", admin},
		{"StateSaveLocation", dir + "/state"},
		{"SlurmdSpoolDir", dir + "/spool/%n"},
		{"SlurmctldPidFile", dir + "/run/slurmctld.pid"},
		{"SlurmdPidFile", dir + "/run/slurmd-%n.pid"},
		{"SlurmctldLogFile", dir + "/log/slurmctld.log"},
		{"SlurmdLogFile", dir + "/log/slurmd-%n.log"},
		{"PlugStackConfig", dir + "/etc/plugstack.conf"},
		{"PluginDir", prefix + "/plugins"},
		{"AuthType", "auth/munge"},
		{"CredType", "cred/munge"},
		{"AuthInfo", "socket=" + dir + "/run/munge.sock,cred_expire=5"},
		{"ProctrackType", "proctrack/linuxproc"},
		{"TaskPlugin", "task/none"},
		{"SwitchType", "switch/none"},
		{"MpiDefault", "none"},
		{"JobAcctGatherType", "jobacct_gather/none"},
		{"SchedulerType", "sched/backfill"},
		{"SchedulerParameters", "sched_interval=1,bf_interval=1"},
		{"SelectType", "select/cons_tres"},
		{"SelectTypeParameters", "CR_Core_Memory"},
		{"DefMemPerCPU", "100"},
		{"SlurmdParameters", "config_overrides"},
		{"ReturnToService", "2"},
		{"SlurmdTimeout", "10"},
		{"KillWait", "2"},
		{"EnforcePartLimits", "ALL"},
		{"MailProg", "/bin/true"},
		{"GresTypes", "gpu"},
	}
	if o.Accounting {
		settings = append(settings, accountingSettings(dir, o)...)
	}
	if o.Slurmrestd {
		settings = append(settings, setting{"AuthAltTypes", "auth/jwt"},
			setting{"AuthAltParameters", "jwt_key=" + dir + "/etc/jwt_hs256.key"})
	}
	if o.Preemption {
		settings = append(settings, setting{"PreemptType", "preempt/partition_prio"}, setting{"PreemptMode", "REQUEUE"})
	}
	if o.JobSubmit != "" {
		settings = append(settings, setting{"JobSubmitPlugins", "lua"})
	}
	if o.Topology != "" {
		settings = append(settings, setting{"TopologyPlugin", "topology/tree"})
	}
	var b strings.Builder
	for _, s := range override(settings, o.Settings) {
		fmt.Fprintf(&b, "%s=%s\n", s.key, s.value)
	}
	b.WriteString(nodeLines(o))
	return b.String()
}

func override(settings []setting, by map[string]string) []setting {
	by = maps.Clone(by)
	for i, s := range settings {
		if value, ok := by[s.key]; ok {
			settings[i].value = value
			delete(by, s.key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(by)) {
		settings = append(settings, setting{key, by[key]})
	}
	return settings
}

func nodeLines(o Options) string {
	var b strings.Builder
	for i := 1; i <= o.Nodes; i++ {
		fmt.Fprintf(&b, "NodeName=%s NodeAddr=%s CPUs=%[3]d Boards=1 SocketsPerBoard=1 CoresPerSocket=%[3]d ThreadsPerCore=1 RealMemory=%[4]d State=UNKNOWN",
			nodeName(i), nodeAddress(i), o.CPUs, o.MemoryMB)
		if gres := nodeGres(o, i); gres != "" {
			b.WriteString(" Gres=" + gres + " Weight=10") // jobs without GPUs prefer nodes without them
		}
		if o.Features[i] != "" {
			b.WriteString(" Feature=" + o.Features[i])
		}
		b.WriteString("\n")
	}
	for _, p := range o.Partitions {
		nodes, isDefault := p.Nodes, "NO"
		if nodes == "" {
			nodes = "ALL"
		}
		if p.Default {
			isDefault = "YES"
		}
		fmt.Fprintf(&b, "PartitionName=%s Nodes=%s Default=%s State=UP %s\n", p.Name, nodes, isDefault, p.Extra)
	}
	return b.String()
}

func nodeGres(o Options, i int) string {
	if i > o.Nodes-o.CPUOnly {
		return ""
	}
	var kinds []string
	for _, g := range o.GPUs {
		kinds = append(kinds, fmt.Sprintf("gpu:%s:%d", g.Type, g.Count))
	}
	return strings.Join(kinds, ",")
}

// gresConf names a device for each GPU, because Slurm drops GPUs without a device file. Links to /dev/null suffice.
func gresConf(dir string, o Options) string {
	var b strings.Builder
	for i := 1; i <= o.Nodes-o.CPUOnly; i++ {
		first := 0
		for _, g := range o.GPUs {
			fmt.Fprintf(&b, "NodeName=%s Name=gpu Type=%s File=%s/dev/gpu[%d-%d]\n", nodeName(i), g.Type, dir, first, first+g.Count-1)
			first += g.Count
		}
	}
	return b.String()
}

// layout makes the cluster's directory: configuration, keys, homes and the shared file system.
func layout(dir string, o Options, users []account) error {
	for _, sub := range []string{"etc", "run", "log", "state", "spool", "dev", "home", "shared", withoutLinks, "ssh", "db/run"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	for _, sub := range []string{"shared", withoutLinks} {
		if err := os.Chmod(filepath.Join(dir, sub), 0o1777); err != nil {
			return err
		}
	}
	for i := 1; i <= o.Nodes; i++ {
		if err := os.MkdirAll(filepath.Join(dir, "spool", nodeName(i)), 0o755); err != nil {
			return err
		}
	}
	devices := 0
	for _, g := range o.GPUs {
		devices += g.Count
	}
	for i := range devices {
		if err := os.Symlink("/dev/null", fmt.Sprintf("%s/dev/gpu%d", dir, i)); err != nil {
			return err
		}
	}
	for _, u := range users {
		if err := os.Mkdir(u.Home, 0o700); err != nil {
			return err
		}
		if err := os.Chown(u.Home, u.UID, u.GID); err != nil {
			return err
		}
	}
	return writeFiles(dir, o, users)
}

func writeFiles(dir string, o Options, users []account) error {
	type file struct {
		name, text string
		mode       os.FileMode
	}
	files := []file{
		{"slurm.conf", slurmConf(dir, o, users[0].Name), 0o644},
		{"gres.conf", gresConf(dir, o), 0o644},
		{"plugstack.conf", "", 0o644},
		{"munge.key", randomBytes(128), 0o600},
		{"jwt_hs256.key", randomBytes(32), 0o600},
		{"hosts", hostsFile(o, 0), 0o644},
		{"passwd", passwdFile(users), 0o644},
		{"group", groupFile(users), 0o644},
		{"nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n", 0o644},
		{"resolv.conf", resolvConf(false), 0o644},
		{"resolv.conf.node", resolvConf(o.MetadataFreeze), 0o644},
	}
	if o.Version != OldestVersion { // 22.05 does not have CgroupPlugin=disabled, and does not need it with linuxproc
		files = append(files, file{"cgroup.conf", "CgroupPlugin=disabled\n", 0o644})
	}
	if o.Topology != "" {
		files = append(files, file{"topology.conf", o.Topology, 0o644})
	}
	if o.JobSubmit != "" {
		files = append(files, file{"job_submit.lua", o.JobSubmit, 0o644})
	}
	for _, path := range o.Etc {
		files = append(files, file{ownName(path), "", 0o644})
	}
	if o.Accounting {
		files = append(files, file{"slurmdbd.conf", slurmdbdConf(dir, users[0].Name), 0o600})
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, "etc", f.name), []byte(f.text), f.mode); err != nil {
			return err
		}
	}
	return nil
}
