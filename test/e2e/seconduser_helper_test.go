package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/raytest"
)

// secondUser is an unprivileged user of this machine with its own user id, group and home directory. Tests run as root, whom
// file modes do not restrict, so that the victim is such a user too.
type secondUser struct {
	t    *testing.T
	name string
	uid  int
	home string   // mode 0700
	dir  string   // the current directory of its commands, at first in its home
	env  []string // more variables
	ray  bool     // its commands can access the Python of Ray's environment for tests
	team bool     // it is in the group teamID, too
}

// Ids used by no other test.
const (
	victimID    = 12345
	attackerID  = 12346
	colleagueID = 12347
	teamID      = 12350 // a group
)

// secondUsers makes the victim and the attacker. At the test's end it ends what the victim's rayctl still runs.
func secondUsers(t *testing.T) (victim, attacker *secondUser) {
	t.Helper()
	needs.RealSystem(t)
	needs.Root(t)
	needs.That(t, runtime.GOOS == "linux", "needs Linux for other users' processes and files")
	victim, attacker = newSecondUser(t, "victim", victimID), newSecondUser(t, "attacker", attackerID)
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(victim.home, ".local", "state", "rayctl", "clusters")); err == nil {
			victim.dir, victim.env = victim.home, nil
			victim.want(0, "down", "--all", "--now")
		}
	})
	return victim, attacker
}

func newSecondUser(t *testing.T, name string, uid int) *secondUser {
	t.Helper()
	if err := os.Chmod(home.dir, 0o711); err != nil { // for the binary and the homes; the rest has its own modes
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(home.dir, name+"-") // mode 0700
	if err != nil {
		t.Fatal(err)
	}
	s := &secondUser{t: t, name: name, uid: uid, home: dir, dir: filepath.Join(dir, "work")}
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	s.mkdir(s.dir, 0o755)
	return s
}

// withRay makes Ray's environment for tests accessible to the user's commands, although its files may be below root's home.
func (s *secondUser) withRay() *secondUser {
	s.t.Helper()
	s.env = append(s.env, "RAYCTL_RAY_PYTHON="+raytest.Env(s.t, raytest.Ray260))
	s.ray = true
	return s
}

// exec is a command of the user. Programs of tests must be in directories open to every user.
func (s *secondUser) exec(ctx context.Context, program string, args ...string) *exec.Cmd {
	s.t.Helper()
	argv := append([]string{program}, args...)
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	if s.ray {
		c = s.seeing(ctx, argv)
	} else {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.uid)}}
		if s.team {
			c.SysProcAttr.Credential.Groups = []uint32{teamID}
		}
	}
	c.Dir, c.Env = s.dir, s.environment()
	return c
}

// environment is a login's, with XDG_STATE_HOME at its default: leftBehind finds our processes by it.
func (s *secondUser) environment() []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "USER=" + s.name, "LOGNAME=" + s.name, "XDG_STATE_HOME=" + s.home + "/.local/state",
	}, s.env...)
}

// hidden maps the first directory that not every user may enter, on the path to this machine's Ray for tests, to the directories needed below it.
var hidden = sync.OnceValues(func() (map[string][]string, error) {
	python, err := raytest.Install(context.Background(), raytest.Ray260, func(string, ...any) {})
	if err != nil {
		return nil, err
	}
	out, err := exec.Command(python, "-c", "import sys; print(sys.prefix); print(sys.base_prefix)").Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s where it is: %w", python, err)
	}
	found := map[string][]string{}
	for _, dir := range strings.Fields(string(out)) {
		for path, parts := "", strings.Split(dir, "/")[1:]; len(parts) > 0; parts = parts[1:] {
			path += "/" + parts[0]
			info, err := os.Stat(path)
			if err != nil {
				return nil, err
			}
			if info.Mode().Perm()&0o005 != 0o005 {
				found[path] = append(found[path], dir)
				break
			}
		}
	}
	return found, nil
})

// seeing is a command of the user in a mount namespace where each hidden directory is replaced by one with only the needed directories.
func (s *secondUser) seeing(ctx context.Context, argv []string) *exec.Cmd {
	s.t.Helper()
	mounts, err := hidden()
	if err != nil {
		s.t.Fatal(err)
	}
	script := "set -e\n"
	for top, dirs := range mounts {
		view := filepath.Join(home.dir, "view") // mounted separately in each namespace
		if err := os.MkdirAll(view, 0o755); err != nil {
			s.t.Fatal(err)
		}
		script += fmt.Sprintf("mount -t tmpfs -o mode=755 view %s\n", view)
		for _, dir := range dirs {
			at := view + strings.TrimPrefix(dir, top)
			script += fmt.Sprintf("mkdir -p %s; mount --bind %s %s\n", at, dir, at)
		}
		script += fmt.Sprintf("mount --rbind %s %s\n", view, top)
	}
	id, groups := strconv.Itoa(s.uid), "--clear-groups"
	if s.team {
		groups = "--groups=" + strconv.Itoa(teamID)
	}
	script += "exec setpriv --reuid=" + id + " --regid=" + id + " " + groups + ` -- "$@"`
	return exec.CommandContext(ctx, "unshare", append([]string{"--mount", "--propagation", "private", "--", "sh", "-c", script, "sh"}, argv...)...)
}

// run runs a program of the user to its end.
func (s *secondUser) run(program string, args ...string) result {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit) // also for a test's cleanup
	defer cancel()
	c := s.exec(ctx, program, args...)
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	err := c.Run()
	if ctx.Err() != nil || c.ProcessState == nil {
		s.t.Fatalf("%s: %s %q did not end: %v: stdout %q, stderr %q", s.name, program, args, err, out.String(), stderr.String())
	}
	return result{out.String(), stderr.String(), c.ProcessState.ExitCode()}
}

// do runs rayctl as the user.
func (s *secondUser) do(args ...string) result { s.t.Helper(); return s.run(home.rayctl, args...) }

// want runs rayctl as the user and expects an exit code.
func (s *secondUser) want(code int, args ...string) result {
	s.t.Helper()
	r := s.do(args...)
	if r.code != code {
		s.t.Fatalf("%s: rayctl %q: exit code %d, want %d\nstdout: %s\nstderr: %s", s.name, args, r.code, code, r.out, r.err)
	}
	return r
}

// sh runs a script as the user.
func (s *secondUser) sh(script string) result { s.t.Helper(); return s.run("sh", "-c", script) }

// must runs a script as the user, expects success, and returns its output.
func (s *secondUser) must(script string) string {
	s.t.Helper()
	r := s.sh(script)
	if r.code != 0 {
		s.t.Fatalf("%s: %s: exit code %d: %s%s", s.name, script, r.code, r.out, r.err)
	}
	return r.out
}

// mkdir makes a directory and its parents as the user, independent of the umask.
func (s *secondUser) mkdir(path string, mode os.FileMode) {
	s.t.Helper()
	if r := s.runAt("/", "sh", "-c", `mkdir -p -- "$1" && chmod "$2" -- "$1"`, "sh", path, fmt.Sprintf("%o", mode)); r.code != 0 {
		s.t.Fatalf("%s: mkdir %s: %s", s.name, path, r.err)
	}
}

// write makes a file as the user, and its directory. A relative path is in its home.
func (s *secondUser) write(path, content string, mode os.FileMode) string {
	s.t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.home, path)
	}
	if r := s.runAt("/", "sh", "-c", `mkdir -p -- "$(dirname -- "$1")" && printf %s "$2" > "$1" && chmod "$3" -- "$1"`, "sh", path, content, fmt.Sprintf("%o", mode)); r.code != 0 {
		s.t.Fatalf("%s: write %s: %s", s.name, path, r.err)
	}
	return path
}

// runAt is run in another directory.
func (s *secondUser) runAt(dir, program string, args ...string) result {
	s.t.Helper()
	at := *s
	at.dir, at.ray = dir, false
	return at.run(program, args...)
}

// exists reports whether a file exists that only root may see.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
