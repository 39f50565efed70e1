package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher/tail"
)

const (
	masterTime = 10 * time.Second // bounds questions about connections that are open
	keyTime    = 30 * time.Second // bounds a login that needs no person

	persist         = "60"  // seconds for which a connection is kept after the last command
	persistOfPerson = "15m" // the same, if a person had to log in for it
)

// wantsPerson matches the messages of ssh for logins that may succeed if a person types a password, a code or a passphrase, or confirms the host's key.
var wantsPerson = regexp.MustCompile(`Permission denied \(|Host key verification failed|Too many authentication failures`)

// connect runs once, before the first command. It finds the user's own connection. If there is none, and only a person can log in, it lets ssh ask
// the person on the terminal. Commands themselves never ask (BatchMode): they run in parallel, while progress is shown on the terminal.
func (s *SSH) connect() {
	if s.theirs = s.usersMaster(); s.theirs || !s.Person {
		return
	}
	if _, err := run(masterTime, append(s.ours(persist), "-O", "check", "--", s.Host)); err == nil {
		return
	}
	said, err := run(keyTime, append(s.ours(persist), "-o", "BatchMode=yes", "--", s.Host, "true"))
	if err == nil || !wantsPerson.MatchString(said) {
		return // the first command reports any other error
	}
	asking := exec.Command("ssh", append(s.ours(persistOfPerson), "--", s.Host, "true")...) //nolint:noctx // a person types; ^C reaches ssh, too
	asking.Stderr = os.Stderr                                                               // its questions go to the terminal itself
	_ = asking.Run()                                                                        // as above
}

// Advice is the next step after an error of the connection to the site.
func Advice(err error) string {
	if wantsPerson.MatchString(err.Error()) {
		return "type the command on a terminal, where ssh can ask, or open a connection with a ControlPath of your own beforehand, which rayctl uses"
	}
	return "check that `ssh` gets there and that it has python3"
}

// run runs a short command for this machine's ssh, and returns what it complains about.
func run(limit time.Duration, args []string) (said string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd, complaint := exec.CommandContext(ctx, "ssh", args...), &tail.Tail{}
	cmd.Stderr = complaint
	err = cmd.Run()
	return complaint.String(), err
}

// usersMaster reports whether the user has an open connection to the host, at the ControlPath of the user's configuration or of sshOptions. It is
// authenticated, which may have taken a password and a code: commands share it, and nobody but the user ends it.
func (s *SSH) usersMaster() bool {
	ctx, cancel := context.WithTimeout(context.Background(), masterTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ssh", append(s.given(), "-G", "--", s.Host)...).Output() // which may run commands of the configuration (Match exec)
	_, path, _ := strings.Cut("\n"+string(out), "\ncontrolpath ")
	if path, _, _ = strings.Cut(path, "\n"); err != nil || path == "" || path == "none" {
		return false
	}
	_, err = run(masterTime, append(s.given(), "-O", "check", "--", s.Host))
	return err == nil
}

// socket is the path of the shared connection's socket, a different one for each set of connection options.
func (s *SSH) socket() string {
	key := sha256.Sum256([]byte(s.Host + "\x00" + s.Config + "\x00" + strings.Join(s.Options, "\x00")))
	return filepath.Join(s.control, hex.EncodeToString(key[:8]))
}

// given are the user's own options.
func (s *SSH) given() []string {
	args := []string{"-T"}
	if s.Config != "" {
		args = append(args, "-F", s.Config)
	}
	for _, o := range s.Options { // ssh takes the first value of an option: the user's go before ours
		args = append(args, "-o", o)
	}
	return args
}

// ours are the options of rayctl's own connection, which is kept for that time after the last command.
func (s *SSH) ours(kept string) []string {
	return append(s.given(), "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3",
		"-o", "ControlMaster=auto", "-o", "ControlPersist="+kept, "-o", "ControlPath="+s.socket())
}

// isTheirs reports whether the connection is the user's.
func (s *SSH) isTheirs() bool {
	s.once.Do(s.connect)
	return s.theirs
}

// options are the options of an ssh that shares a connection: the user's, or ours.
func (s *SSH) options() []string {
	if s.isTheirs() {
		return append(s.given(), "-o", "BatchMode=yes", "-o", "ControlMaster=no")
	}
	return append(s.ours(persist), "-o", "BatchMode=yes")
}
