//go:build linux

package slurmtest

import (
	"fmt"
	"os"
	"os/user"
	"regexp"
	"strconv"
)

// Versions of Slurm that a cluster can have. The project's whole test suite runs on DefaultVersion.
const (
	DefaultVersion = "24.11"
	OldestVersion  = "22.05"
	NewestVersion  = "26.05"
)

// GPU is one typed kind of generic resource on a node. The devices are links to /dev/null.
type GPU struct {
	Type  string // "h100"
	Count int
}

// Partition is one partition of a cluster.
type Partition struct {
	Name    string
	Nodes   string // Slurm's notation, "node[1-2]"; empty: all
	Default bool
	Extra   string // further attributes as in slurm.conf: "PriorityTier=20 PreemptMode=OFF"
}

// Options configure a cluster. The zero value is one node with 16 CPUs and 64,000 MB on Slurm's DefaultVersion.
type Options struct {
	Version string // "22.05", "24.11" or "26.05"; default DefaultVersion
	Nodes   int    // node1 to nodeN; default 1

	// Resources that each node reports. The machine need not have them, and jobs are not limited to them.
	CPUs     int   // default 16
	MemoryMB int   // default 64000
	GPUs     []GPU // typed GRES of every node
	CPUOnly  int   // this many nodes at the end have no GPUs
	Features map[int]string

	Partitions []Partition // default: "main" with all nodes; with Preemption also "high", which preempts it
	Preemption bool        // by partition priority; jobs are requeued
	Topology   string      // topology.conf; empty: flat

	Accounting bool // slurmdbd on MariaDB with account "users" for all users, limits enforced
	Slurmrestd bool // with JWT authentication
	LoginSSH   bool // sshd on login nodes "login" and "gateway"
	TwoFactors bool // with LoginSSH, needs root: a second sshd on "login" (TwoFactorsPort), for which users need a key, their password and a code

	// Users are further Linux users whose jobs the nodes run; needs root. They exist inside the cluster only.
	Users []string

	// Binds are paths of this machine that nodes see although they are below /tmp, /run or /dev/shm, or (for Users) below a
	// directory open only to its owner. All other paths outside those three directories are visible anyway.
	Binds []string

	// MetadataFreeze gives nodes a default route and a name server that drop packets, as on many sites: connecting to
	// the cloud metadata address and resolving names hang. Otherwise both fail at once.
	MetadataFreeze bool

	// Storage gives the controller and the nodes a second network, as storage or InfiniBand have one: eth1 of node i has StorageAddress(i). LoopbackNames
	// makes each node's own name stand for 127.0.1.1 on it, as Debian's installer does. Nodes have no default route.
	Storage, LoopbackNames bool

	// NFS serves the homes, shared/ and what WithoutLinks is about by NFSv3 with root_squash: a real server (NFS-Ganesha) next to the controller, mounted on each host as Linux does by
	// default and with `nolock`. root is nobody there, so commands are to be those of Users. Needs root. The test itself sees the server's files. The kernels of
	// the tests' machines have no client of NFS: package nfsmount is one.
	NFS bool

	// Etc are further files of /etc, by path, that the cluster has itself: empty until Change. The machine must have them.
	Etc []string

	JobSubmit string // job_submit.lua, the site's own rules for jobs; empty: none

	Settings map[string]string // slurm.conf settings that replace or extend the testbed's own
}

var userName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,30}$`)

func (o Options) withDefaults() (Options, error) {
	if o.Version == "" {
		o.Version = DefaultVersion
	}
	o.Nodes = max(o.Nodes, 1)
	if o.CPUs == 0 {
		o.CPUs = 16
	}
	if o.MemoryMB == 0 {
		o.MemoryMB = 64000
	}
	if len(o.Partitions) == 0 {
		o.Partitions = defaultPartitions(o.Preemption)
	}
	if o.Nodes > 200 {
		return o, fmt.Errorf("%d nodes: the testbed has addresses for 200", o.Nodes)
	}
	for _, name := range o.Users {
		if !userName.MatchString(name) {
			return o, fmt.Errorf("bad user name %q", name)
		}
	}
	if len(o.Users) > 0 && os.Getuid() != 0 {
		return o, fmt.Errorf("further users need root")
	}
	if o.TwoFactors && (os.Getuid() != 0 || !o.LoginSSH) {
		return o, fmt.Errorf("TwoFactors needs root, and LoginSSH")
	}
	if o.NFS && os.Getuid() != 0 {
		return o, fmt.Errorf("an NFS server needs root")
	}
	if o.Slurmrestd && o.Version == NewestVersion && os.Getuid() != 0 {
		return o, fmt.Errorf("slurmrestd %s refuses to run as SlurmUser: needs root", o.Version)
	}
	return o, nil
}

func defaultPartitions(preemption bool) []Partition {
	if !preemption {
		return []Partition{{Name: "main", Default: true}}
	}
	return []Partition{
		{Name: "main", Default: true, Extra: "PriorityTier=1 PreemptMode=REQUEUE"},
		{Name: "high", Extra: "PriorityTier=20 PreemptMode=OFF"},
	}
}

// account is one Linux user inside the cluster.
type account struct {
	Name     string
	UID, GID int
	Home     string
	Shell    string
}

// accounts lists the cluster's users; the first is the user who runs the test, and is Slurm's administrator. With NFS its home is not among those of the others,
// because root could not use it there.
func accounts(dir string, o Options) []account {
	me := account{Name: "u" + strconv.Itoa(os.Getuid()), UID: os.Getuid(), GID: os.Getgid()}
	if u, err := user.Current(); err == nil && userName.MatchString(u.Username) {
		me.Name = u.Username
	}
	all := []account{me}
	for i, name := range o.Users {
		all = append(all, account{Name: name, UID: firstTestUID + i, GID: firstTestUID + i})
	}
	for i := range all {
		all[i].Home, all[i].Shell = dir+"/home/"+all[i].Name, "/bin/bash"
	}
	if o.NFS {
		all[0].Home = dir + "/root"
	}
	return all
}

// firstTestUID is above Debian's ranges and below those of nested containers.
const firstTestUID = 61001
