//go:build linux

package slurmtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rayctl/rayctl/test/slurmtest/internal/agent"
	"github.com/rayctl/rayctl/test/slurmtest/internal/nfsmount"
)

// nfsNames are the NFS server's packages. It runs in the tree that they are unpacked to, with its own libraries and files of /etc.
var nfsNames = []string{"nfs-ganesha", "nfs-ganesha-vfs"}

// The ports of the server's two services.
const (
	nfsPort   = 2049
	mountPort = 20048
)

// exported are the shared directories of a cluster, below its directory.
var exported = []string{"home", "shared", withoutLinks}

// withoutLinks is one that everybody may write to, and whose files have one name only.
const withoutLinks = "nolinks"

// WithoutLinks is a directory of a user, with Options.NFS, where link(2) fails with EOPNOTSUPP on all hosts.
func (c *Cluster) WithoutLinks(user string) string {
	return filepath.Join(c.Dir, withoutLinks, c.account(user).Name)
}

// nfsPackages returns the directory of the unpacked NFS server.
func nfsPackages(ctx context.Context) (string, error) {
	return unpacked(ctx, "nfs", "the NFS server", func(tmp string) error {
		debs, err := download(ctx, tmp, []string{"bookworm"}, nfsNames, "4.")
		if err != nil {
			return err
		}
		root := filepath.Join(tmp, "root")
		if err := unpack(ctx, debs, root); err != nil {
			return err
		}
		return nfsFiles(root)
	})
}

// nfsFiles makes what the programs expect of a system, and directories for what is mounted.
func nfsFiles(root string) error {
	for _, dir := range []string{"proc", "dev", "run", "var", "srv"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	files := map[string]string{
		"services":      "sunrpc 111/tcp portmapper\nsunrpc 111/udp portmapper\n",
		"hosts":         "127.0.0.1 localhost\n" + ctlAddress + " ctl\n",
		"passwd":        "root:x:0:0::/:/bin/sh\n_rpc:x:101:65534::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
		"group":         "root:x:0:\nnogroup:x:65534:\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return os.Symlink("/proc/self/mounts", filepath.Join(root, "etc", "mtab"))
}

// startNFS starts the NFS server next to the controller, and mounts its exports there.
func (c *Cluster) startNFS(ctx context.Context) error {
	if err := os.WriteFile(c.Dir+"/etc/ganesha.conf", []byte(ganeshaConf()), 0o644); err != nil {
		return err
	}
	args := agent.SpawnArgs{Name: "nfs", Log: c.Dir + "/log/nfs.out", Env: append(c.env(), "ROOT="+c.nfsRoot, "DIR="+c.Dir),
		Argv: []string{"unshare", "--mount", "--propagation", "private", "sh", "-ec", serveNFS}}
	if err := c.agent.Call("Agent.Spawn", args, nil); err != nil {
		return fmt.Errorf("starting the NFS server: %w", err)
	}
	err := await(ctx, startInterval, "the NFS server", func() (bool, error) { return c.listens(ctx, fmt.Sprintf("ctl:%d", nfsPort)), nil })
	if err != nil {
		return fmt.Errorf("%w\n%s", err, c.logTail("nfs.out", 5))
	}
	return c.agent.Call("Agent.Mount", c.exports(), nil)
}

// serveNFS runs the server in its own tree. What it exports is bound without what is mounted below it: the exports themselves, on the controller. rpcbind is a
// requirement of the server, and returns when it listens.
const serveNFS = `mount -n --bind "$DIR" "$ROOT/srv"
mount -n -t tmpfs tmpfs "$ROOT/run"
mount -n -t tmpfs tmpfs "$ROOT/var"
mount -n -t proc proc "$ROOT/proc"
mount -n --rbind /dev "$ROOT/dev"
mkdir -p "$ROOT/var/lib/nfs/ganesha" "$ROOT/run/rpcbind"
chroot "$ROOT" /usr/sbin/rpcbind -w
exec chroot "$ROOT" /usr/bin/ganesha.nfsd -F -f /srv/etc/ganesha.conf -L STDOUT -p /run/ganesha.pid
`

// ganeshaConf exports with root_squash. The server believes nothing about files for longer than a call (Attr_Expiration_Time): tests change them beside it, which
// no program does on a site's server.
func ganeshaConf() string {
	var b strings.Builder
	fmt.Fprintf(&b, `NFS_CORE_PARAM { Protocols = 3; NFS_Port = %d; MNT_Port = %d; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }
NFS_KRB5 { Active_krb5 = false; }
NFSv4 { Graceless = true; UseGetpwnam = true; }
LOG { Default_Log_Level = EVENT; }
`, nfsPort, mountPort)
	for i, name := range exported {
		fmt.Fprintf(&b, `EXPORT { Export_Id = %d; Path = /srv/%s; Pseudo = /%s; Access_Type = RW; Squash = root_squash; Protocols = 3; Transports = TCP; SecType = sys;
  Anonymous_uid = %d; Anonymous_gid = %d; Attr_Expiration_Time = 0; FSAL { Name = VFS; } }
`, i+1, name, name, nobody, nobody)
	}
	return b.String()
}

// exports are what hosts mount.
func (c *Cluster) exports() []nfsmount.Export {
	if !c.Options.NFS {
		return nil
	}
	var all []nfsmount.Export
	for _, name := range exported {
		all = append(all, nfsmount.Export{Files: fmt.Sprintf("%s:%d", ctlAddress, nfsPort), Mounts: fmt.Sprintf("%s:%d", ctlAddress, mountPort),
			Path: "/srv/" + name, Dir: filepath.Join(c.Dir, name), NoLinks: name == withoutLinks})
	}
	return all
}

// FreezeNFS stops the NFS server, as a server under too much load or behind a broken network: hosts wait for it. ThawNFS lets it go on.
func (c *Cluster) FreezeNFS() error { return c.signalNFS(syscall.SIGSTOP) }

// ThawNFS ends what FreezeNFS began.
func (c *Cluster) ThawNFS() error { return c.signalNFS(syscall.SIGCONT) }

func (c *Cluster) signalNFS(s syscall.Signal) error {
	return c.agent.Call("Agent.Signal", agent.StopArgs{Name: "nfs", Signal: s}, nil)
}
