// Package remote runs commands where Slurm is, on this machine or through ssh, and reads, writes and watches files there.
package remote

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Runner runs commands where Slurm's commands are. It is what transports differ in; everything else (submission, queries, files,
// byte streams) is made of commands.
type Runner interface {
	// Command prepares a command; nothing runs yet. The end of ctx kills it.
	Command(ctx context.Context, argv ...string) *exec.Cmd
	// String names the host, for notes and errors: "this machine", "login1".
	String() string
}

// Here runs commands on this machine, a login node.
type Here struct{}

// Command is exec.CommandContext.
func (Here) Command(ctx context.Context, argv ...string) *exec.Cmd {
	return exec.CommandContext(ctx, argv[0], argv[1:]...)
}

func (Here) String() string { return "this machine" }

// SSH runs commands on a login node by the system's OpenSSH: the user's own configuration, keys, jump hosts and known hosts hold. All
// commands share one connection, which OpenSSH keeps for a minute after the last.
type SSH struct {
	Host    string
	Options []string // of -o
	Config  string   // instead of the user's configuration, for tests
	Person  bool     // somebody at a terminal can be asked for a password or a code
	control string   // directory of the connection's socket

	once   sync.Once
	theirs bool // see usersMaster
}

// NewSSH prepares a directory for the connection's socket, which only the user may enter.
func NewSSH(host string, options []string) (*SSH, error) {
	dir, err := OwnDir("ssh")
	if err != nil {
		return nil, err
	}
	return &SSH{Host: host, Options: options, control: dir}, nil
}

// OwnDir is a directory of this user on this machine, below one that nobody else may enter. Its path is short: sockets are in it.
func OwnDir(name string) (string, error) {
	base := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "rayctl")
	if !filepath.IsAbs(base) || len(base) > 50 {
		base = filepath.Join("/tmp", fmt.Sprintf("rayctl-%d", os.Getuid()))
	}
	err := os.MkdirAll(base, 0o700)
	if err == nil {
		err = onlyMine(base)
	}
	dir := filepath.Join(base, name)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", launcher.Fail(runstate.CodeConfig, err, "set XDG_RUNTIME_DIR to a directory of yours", "cannot make %s: %v", dir, err)
	}
	return dir, nil
}

// onlyMine refuses a directory that somebody else made for us.
func onlyMine(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(owner.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a directory that only you may enter", dir)
	}
	return nil
}

func (s *SSH) String() string { return s.Host }

// Command quotes the arguments for the login shell on the other side.
func (s *SSH) Command(ctx context.Context, argv ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ssh", append(s.options(), "--", s.Host, loginShellCommand(withLoginPath(argv)))...)
}

// TerminalCommand prepares a command on a terminal there, which this process's stands for.
func (s *SSH) TerminalCommand(ctx context.Context, argv ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ssh", append(s.options(), "-o", "LogLevel=ERROR", "-tt", "--", s.Host, loginShellCommand(withLoginPath(argv)))...)
}

// Close ends the connection that commands share, if there is one.
func (s *SSH) Close(ctx context.Context) error {
	if _, err := os.Stat(s.socket()); err != nil || s.isTheirs() {
		return nil
	}
	if out, err := exec.CommandContext(ctx, "ssh", append(s.options(), "-O", "exit", "--", s.Host)...).CombinedOutput(); err != nil {
		return fmt.Errorf("end the ssh connection to %s: %w: %s", s.Host, err, strings.TrimSpace(string(out)))
	}
	return nil
}
