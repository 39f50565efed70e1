//go:build linux

package slurmtest

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
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

	otp []byte // what the user's codes are made of, with Options.TwoFactors
}

const sshPort = 22

// startLogin makes the two login nodes with a real sshd each, and the client's files.
func (c *Cluster) startLogin(ctx context.Context) error {
	login := &Login{Config: c.Dir + "/ssh/config", KnownHosts: c.Dir + "/ssh/known_hosts", Key: c.Dir + "/ssh/id_ed25519", Restricted: c.Dir + "/ssh/restricted_ed25519",
		Password: rand.Text()}
	if err := c.writeServerKeys(ctx, login); err != nil {
		return err
	}
	files := map[string]string{"/etc/shadow": c.Dir + "/ssh/shadow"}
	if err := c.writeShadow(ctx, files["/etc/shadow"], login.Password); err != nil {
		return err
	}
	if c.Options.TwoFactors {
		files["/etc/pam.d"] = c.pamDir()
		if err := os.Mkdir(c.pamDir(), 0o755); err != nil {
			return err
		}
	}
	hosts := map[string]string{"login": loginAddress, "gateway": gatewayAddress}
	for name, address := range hosts {
		if err := c.makeNode(name, address, "", files); err != nil {
			return err
		}
		if err := c.spawn(name, "sshd", nil, "sshd", "-D", "-e", "-f", c.Dir+"/ssh/sshd_config"); err != nil {
			return err
		}
	}
	targets := map[string]string{"sshd-login": fmt.Sprintf("login:%d", sshPort), "sshd-gateway": fmt.Sprintf("gateway:%d", sshPort)}
	if c.Options.TwoFactors {
		if err := c.startTwoFactors(login); err != nil {
			return err
		}
		targets["sshd-two-login"] = fmt.Sprintf("login:%d", TwoFactorsPort)
	}
	for name, target := range targets {
		if err := await(ctx, startInterval, name, func() (bool, error) { return c.listens(ctx, target), nil }); err != nil {
			return fmt.Errorf("%w\n%s", err, c.logTail(name+".out", 5))
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

// ServeSSH starts an sshd on node i, as on sites where users reach the nodes of their jobs: with the login nodes' keys, and so with Options.LoginSSH.
func (c *Cluster) ServeSSH(ctx context.Context, i int) error {
	if err := c.spawn(nodeName(i), "sshd", nil, "sshd", "-D", "-e", "-f", c.Dir+"/ssh/sshd_config"); err != nil {
		return err
	}
	return await(ctx, startInterval, "sshd", func() (bool, error) { return c.listens(ctx, fmt.Sprintf("%s:%d", nodeName(i), sshPort)), nil })
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

// TwoFactorsPort is where the second sshd of "login" listens, with Options.TwoFactors.
const TwoFactorsPort = 2222

// otpNames are the packages of the PAM module that asks for the codes.
var otpNames = []string{"libpam-google-authenticator"}

// otpPackages returns the directory of the unpacked PAM module, of the same Debian as Slurm and its sshd.
func otpPackages(ctx context.Context, rel release) (string, error) {
	return unpacked(ctx, "otp-"+rel.version, "the PAM module for codes", func(tmp string) error {
		debs, err := download(ctx, tmp, rel.suites, otpNames, "2")
		if err != nil {
			return err
		}
		return unpack(ctx, debs, filepath.Join(tmp, "root"))
	})
}

// startTwoFactors starts an sshd that wants a key, and then, by PAM, the password and a code that changes every 30 s (RFC 6238).
func (c *Cluster) startTwoFactors(login *Login) error {
	secret := make([]byte, 20)
	_, _ = rand.Read(secret) // never fails (crypto/rand)
	login.otp = secret
	unix, err := module(c.packages, "pam_unix.so", prefix)
	if err != nil {
		return err
	}
	permit, err := module(c.packages, "pam_permit.so", prefix)
	if err != nil {
		return err
	}
	codes, err := module(c.otpRoot, "pam_google_authenticator.so", c.otpRoot)
	if err != nil {
		return err
	}
	seeds, config := c.Dir+"/ssh/otp", c.Dir+"/ssh/sshd_config.two"
	stack := fmt.Sprintf("auth required %s\nauth required %s secret=%s user=%s\naccount required %s\nsession required %s\n", unix, codes, seeds, c.users[0].Name, permit, permit)
	lines := strings.NewReplacer(fmt.Sprintf("Port %d\n", sshPort), fmt.Sprintf("Port %d\n", TwoFactorsPort), "PasswordAuthentication yes", "PasswordAuthentication no",
		"KbdInteractiveAuthentication no", "KbdInteractiveAuthentication yes\nAuthenticationMethods publickey,keyboard-interactive", "UsePAM no", "UsePAM yes")
	for path, text := range map[string]string{
		c.pamDir() + "/sshd": stack,
		seeds:                base32.StdEncoding.EncodeToString(secret) + "\n\" TOTP_AUTH\n",
		config:               lines.Replace(c.serverConfig(c.Dir + "/ssh/host_ed25519")),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return c.spawn("login", "sshd-two", nil, "sshd", "-D", "-e", "-f", config)
}

// pamDir is what login nodes have as /etc/pam.d.
func (c *Cluster) pamDir() string { return c.Dir + "/ssh/pam.d" }

// module is the path of a PAM module of an unpacked tree, as hosts see it.
func module(root, name, inside string) (string, error) {
	found, err := filepath.Glob(filepath.Join(root, "usr/lib/*/security", name))
	if err == nil && len(found) == 0 {
		err = errors.New("the packages have no " + name)
	}
	if err != nil {
		return "", err
	}
	return inside + strings.TrimPrefix(found[0], root), nil
}

// Code is the code that the user's authenticator shows now (RFC 6238, six digits).
func (l *Login) Code() string {
	mac := hmac.New(sha1.New, l.otp)
	_ = binary.Write(mac, binary.BigEndian, uint64(time.Now().Unix()/30)) // never fails (hash.Hash)
	sum := mac.Sum(nil)
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[sum[19]&15:])&0x7fffffff%1000000)
}
