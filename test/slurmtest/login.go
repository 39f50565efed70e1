//go:build linux

package slurmtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Login describes the cluster's ssh servers. `ssh -F Config login` logs in as the user who runs the test; "gateway" is a
// second host; "inner" is "login" reached by jumping over "gateway". Host keys are checked strictly.
type Login struct {
	Config     string // ssh_config for the client
	KnownHosts string // the file it checks host keys with
	Key        string // the client's private key
	Restricted string // another key, for which sshd forwards no connections
	Password   string // the user's, which sshd takes, too

	// Direct carries the connections to "login", Gateway those to "gateway", so that tests can cut and refuse them.
	Direct, Gateway *Bridge
}

const sshPort = 22

// startLogin makes the two login nodes with a real sshd each, and the client's files.
func (c *Cluster) startLogin(ctx context.Context) error {
	login := &Login{Config: c.Dir + "/ssh/config", KnownHosts: c.Dir + "/ssh/known_hosts", Key: c.Dir + "/ssh/id_ed25519", Restricted: c.Dir + "/ssh/restricted_ed25519",
		Password: rand.Text()}
	if err := c.writeServerKeys(ctx, login); err != nil {
		return err
	}
	shadow := map[string]string{"/etc/shadow": c.Dir + "/ssh/shadow"}
	if err := c.writeShadow(ctx, shadow["/etc/shadow"], login.Password); err != nil {
		return err
	}
	hosts := map[string]string{"login": loginAddress, "gateway": gatewayAddress}
	for name, address := range hosts {
		if err := c.makeNode(name, address, "", shadow); err != nil {
			return err
		}
		if err := c.spawn(name, "sshd", nil, "sshd", "-D", "-e", "-f", c.Dir+"/ssh/sshd_config"); err != nil {
			return err
		}
	}
	for name := range hosts {
		target := fmt.Sprintf("%s:%d", name, sshPort)
		if err := await(ctx, startInterval, "sshd on "+name, func() (bool, error) { return c.listens(ctx, target), nil }); err != nil {
			return fmt.Errorf("%w\n%s", err, c.logTail("sshd-"+name+".out", 5))
		}
	}
	var err error
	if login.Direct, err = c.Bridge(ctx, fmt.Sprintf("login:%d", sshPort)); err != nil {
		return err
	}
	if login.Gateway, err = c.Bridge(ctx, fmt.Sprintf("gateway:%d", sshPort)); err != nil {
		return err
	}
	c.Login = login
	return os.WriteFile(login.Config, []byte(c.clientConfig(login)), 0o644)
}

func (c *Cluster) writeServerKeys(ctx context.Context, login *Login) error {
	host := c.Dir + "/ssh/host_ed25519"
	for _, key := range []string{host, login.Key, login.Restricted} {
		cmd := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "testbed", "-f", key)
		if err := runQuiet(cmd); err != nil {
			return fmt.Errorf("making ssh keys: %w", err)
		}
	}
	public, err := os.ReadFile(host + ".pub")
	if err != nil {
		return err
	}
	authorized, err := os.ReadFile(login.Key + ".pub")
	if err != nil {
		return err
	}
	restricted, err := os.ReadFile(login.Restricted + ".pub")
	if err != nil {
		return err
	}
	files := map[string]string{
		login.KnownHosts:                 "login,gateway " + string(public),
		c.Dir + "/ssh/authorized_keys":   string(authorized) + "no-port-forwarding " + string(restricted),
		c.Dir + "/ssh/sshd_config":       c.serverConfig(host),
		c.Dir + "/ssh/known_hosts.wrong": "login,gateway " + string(authorized),
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeShadow writes the file by which sshd checks the user's password (shadow(5)). Perl, which every Debian has, makes its hash.
func (c *Cluster) writeShadow(ctx context.Context, path, password string) error {
	cmd := exec.CommandContext(ctx, "perl", "-e", `print crypt(<STDIN>, "\$6\$testbed\$")`)
	cmd.Stdin = strings.NewReader(password)
	hash, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("making the hash of a password: %w", err)
	}
	return os.WriteFile(path, []byte(c.users[0].Name+":"+string(hash)+":19000:0:99999:7:::\n"), 0o600)
}

// serverConfig gives sessions the environment of a site's login shells.
func (c *Cluster) serverConfig(hostKey string) string {
	lines := []string{
		fmt.Sprintf("Port %d", sshPort),
		"HostKey " + hostKey,
		"AuthorizedKeysFile " + c.Dir + "/ssh/authorized_keys",
		"StrictModes no", // the cluster's directory is below /tmp, which is writable for all
		"PasswordAuthentication yes",
		"KbdInteractiveAuthentication no",
		"UsePAM no",
		"PermitRootLogin yes",
		"PidFile none",
		"PrintMotd no",
		"MaxStartups 100",
		"Subsystem sftp internal-sftp",
		"SetEnv PATH=" + SearchPath + " SLURM_CONF=" + c.Conf(),
	}
	if c.Options.Version != OldestVersion { // OpenSSH 10: sshd starts separate programs
		lines = append(lines, "SshdSessionPath "+prefix+"/daemons/sshd-session", "SshdAuthPath "+prefix+"/daemons/sshd-auth")
	}
	return strings.Join(lines, "\n") + "\n"
}

func (c *Cluster) clientConfig(login *Login) string {
	port := func(b *Bridge) string { return b.Addr[strings.LastIndex(b.Addr, ":")+1:] }
	return fmt.Sprintf(`Host login
  HostName 127.0.0.1
  Port %s
  HostKeyAlias login
Host gateway
  HostName 127.0.0.1
  Port %s
  HostKeyAlias gateway
Host inner
  HostName login
  HostKeyAlias login
  ProxyJump gateway
Host *
  User %s
  IdentityFile %s
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile %s
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
`, port(login.Direct), port(login.Gateway), c.users[0].Name, login.Key, login.KnownHosts)
}

func (l *Login) close() {
	l.Direct.Close()
	l.Gateway.Close()
}
