package nodefiles

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// thisMachine runs a node's commands here, as the local launcher does. A positive cut ends the archive after that many bytes, in either direction, as a
// lost connection or a full disk does.
type thisMachine struct{ cut int64 }

func (m thisMachine) Exec(ctx context.Context, _ launcher.ID, e launcher.ExecRequest) (int, error) {
	c := exec.CommandContext(ctx, e.Command[0], e.Command[1:]...)
	c.Stdin, c.Stdout, c.Stderr = e.Stdin, e.Stdout, e.Stderr
	if m.cut > 0 && e.Stdin != nil {
		c.Stdin = io.LimitReader(e.Stdin, m.cut)
	}
	if m.cut > 0 && strings.Contains(strings.Join(e.Command, " "), "tar -C \"$3\" -cf") {
		c.Stdout = &limited{w: e.Stdout, left: m.cut}
	}
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

type limited struct {
	w    io.Writer
	left int64
}

func (l *limited) Write(p []byte) (int, error) {
	n, err := l.w.Write(p[:min(l.left, int64(len(p)))])
	if l.left -= int64(n); err == nil && n < len(p) {
		err = errors.New("the connection was lost")
	}
	return n, err
}

func copier(t *testing.T, e execer) *Shell {
	t.Helper()
	ui := terminal.NewUI(&terminal.Streams{Out: io.Discard, Err: io.Discard, Now: time.Now, Quiet: true}, os.Getenv)
	return New(ui, e, "c", "")
}

// contents returns the files and links below a directory; anything else there is an error.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		rel, _ := filepath.Rel(root, p)
		out[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func lay(t *testing.T, root string, files map[string]string) string {
	t.Helper()
	for name, content := range files {
		p := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		if err == nil {
			err = os.WriteFile(p, []byte(content), 0o640)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestLook: the next step names the node of the copy, and exec only where it runs something.
func TestLook(t *testing.T) {
	for _, c := range []struct {
		e          execer
		node, want string
	}{
		{thisMachine{}, "", "look there: `rayctl exec c -- ls -l`"},
		{thisMachine{}, "w-0; id", "look there: `rayctl exec c --node 'w-0; id' -- ls -l`"},
		{onHost{}, "", "name a file or directory that is there and that you may read"},
	} {
		n := copier(t, c.e)
		n.node = c.node
		if got := n.look(); got != c.want {
			t.Errorf("%T %q: %s", c.e, c.node, got)
		}
	}
}

// TestCopyOntoItself: source and target may be one directory, on the local launcher and on Slurm's shared file systems.
func TestCopyOntoItself(t *testing.T) {
	files := map[string]string{"a file": "precious", "d/x": "1", "d/e/y": "2"}
	for name, c := range map[string]struct{ from, to string }{
		"the same file":      {"a file", "a file"},
		"into its directory": {"a file", "."},
		"a hard link":        {"a file", "hard"},
		"of a hard link":     {"hard", "a file"},
		"a link":             {"a file", "soft"},
		"of a link":          {"soft", "a file"},
		"through a link":     {"dlink/x", "d/x"},
		"a directory":        {"d", "."},
		"a directory in it":  {"d", "d"},
		"deeper":             {"d", "d/e"},
		"new, and deeper":    {"d", "d/new"},
		"through the link":   {"d", "dlink/e"},
	} {
		t.Run(name, func(t *testing.T) {
			root := lay(t, t.TempDir(), files)
			for link, to := range map[string]string{"soft": "a file", "dlink": "d"} {
				if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Link(filepath.Join(root, "a file"), filepath.Join(root, "hard")); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(root, "dlink")); err != nil || os.Symlink(filepath.Join(root, "d"), filepath.Join(root, "dlink")) != nil {
				t.Fatal(err)
			}
			before := list(t, root)
			from, to := filepath.Join(root, c.from), filepath.Join(root, c.to)
			for direction, err := range map[string]error{
				"download": failure(copier(t, thisMachine{}).Download(t.Context(), from, to)),
				"upload":   failure(copier(t, thisMachine{}).Upload(t.Context(), from, to)),
			} {
				if app.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), "the same") && !strings.Contains(err.Error(), "into itself") {
					t.Errorf("%s: %v", direction, err)
				}
			}
			if diff := cmp.Diff(before, list(t, root)); diff != "" {
				t.Errorf("changed (-before +after):\n%s", diff)
			}
		})
	}
}

// list describes a tree as find does: names, kinds, inodes, sizes.
func list(t *testing.T, root string) string {
	t.Helper()
	out, err := exec.Command("find", root, "!", "-type", "d", "-ls").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestCopyReplacesWholeFiles copies onto existing files and fails in the middle: the old files stay whole, and nothing is left beside them.
func TestCopyReplacesWholeFiles(t *testing.T) {
	large := strings.Repeat("new", 100_000)
	copies := map[string]func(n *Shell, from, to string) error{
		"download": func(n *Shell, from, to string) error { return failure(n.Download(t.Context(), from, to)) },
		"upload":   func(n *Shell, from, to string) error { return failure(n.Upload(t.Context(), from, to)) },
	}
	for name, do := range copies {
		t.Run(name, func(t *testing.T) {
			from := lay(t, t.TempDir(), map[string]string{"file": large, "tree/a": "new a", "tree/sub/.b": large, "tree/sub/c/d": "new d"})
			to := lay(t, t.TempDir(), map[string]string{"file": "old", "tree/sub/.b": "old", "tree/kept": "kept"})
			for _, what := range []string{"file", "tree"} {
				if err := do(copier(t, thisMachine{cut: 100_000}), filepath.Join(from, what), to); err == nil {
					t.Errorf("%s: a copy that was cut is none", what)
				}
			}
			got := contents(t, to)
			if got["tree/a"] != "" { // complete files from before the cut may exist
				delete(got, "tree/a")
			}
			if diff := cmp.Diff(map[string]string{"file": "old", "tree/sub/.b": "old", "tree/kept": "kept"}, got); diff != "" {
				t.Error(diff)
			}
			for _, what := range []string{"file", "tree"} {
				if err := do(copier(t, thisMachine{}), filepath.Join(from, what), to); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			want := map[string]string{"file": large, "tree/a": "new a", "tree/sub/.b": large, "tree/sub/c/d": "new d", "tree/kept": "kept"}
			if diff := cmp.Diff(want, contents(t, to)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestCopyToWhatIsNoFile: a copy to a pipe writes into it, and a copy replaces no device.
func TestCopyToWhatIsNoFile(t *testing.T) {
	from := lay(t, t.TempDir(), map[string]string{"f": "text"})
	if _, err := copier(t, thisMachine{}).Download(t.Context(), filepath.Join(from, "f"), "/dev/null"); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Fatalf("/dev/null is %v, %v", info, err)
	}
	n := copier(t, thisMachine{})
	pipe := filepath.Join(t.TempDir(), "pipe")
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := n.Upload(t.Context(), filepath.Join(from, "f"), pipe); err == nil || !strings.Contains(err.Error(), "neither a file nor a directory") {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(pipe)); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
}

// TestCpTells expects progress, and one line that names what is left out.
func TestCpTells(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	script := `mkdir src && cd src && head -c 300000 /dev/zero > big && mkfifo fifo && python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'`
	made := exec.Command("sh", "-c", script)
	made.Dir = dir
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, test := range map[string]struct {
		copy func(n *Shell, dst string) error
		want string
	}{
		"upload":   {func(n *Shell, dst string) error { return failure(n.Upload(t.Context(), src, dst)) }, "KB of 300 KB"},
		"download": {func(n *Shell, dst string) error { return failure(n.Download(t.Context(), src, dst)) }, "src: "},
	} {
		t.Run(name, func(t *testing.T) {
			a, _, stderr := apptest.New()
			seconds := 0
			a.Now = func() time.Time { seconds++; return time.Unix(int64(seconds), 0) } // every step is slow
			n := New(a.UI, thisMachine{}, "", "")
			dst := filepath.Join(t.TempDir(), "dst")
			if err := test.copy(n, dst); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(filepath.Join(dst, "big")); err != nil || info.Size() != 300000 {
				t.Errorf("%v, %v", info, err)
			}
			lines := strings.Split(strings.TrimSuffix(stderr.String(), "\n"), "\n")
			last := lines[len(lines)-1]
			if !strings.Contains(lines[0], "copying "+src) || !strings.Contains(lines[0], test.want) || strings.Count(stderr.String(), "left out") != 1 ||
				!strings.HasPrefix(last, "left out") || !strings.Contains(last, `fifo"`) || !strings.Contains(last, `socket"`) {
				t.Errorf("%q", lines)
			}
		})
	}
}

// failure is the error of a copy.
func failure(_ string, err error) error { return err }
