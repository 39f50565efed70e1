//go:build linux

package slurm_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance/terminaltest"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm"
)

// commands are run in a cluster. Ray is not needed for that: the cluster is still at its setup.
func (b *bed) commands(t *testing.T) {
	l := b.launcher()
	s := b.named("exec", "")
	s.Setup = "sleep 1000"
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.down(t, l, id)
	watchUntil(t, l, id, func(s launcher.Status) bool { return s.Phase == runstate.Starting })
	t.Run("apart", func(t *testing.T) { apart(t, l, id) })
	t.Run("apart by ssh", func(t *testing.T) { apart(t, b.ssh(t), id) })
	t.Run("in an allocation", func(t *testing.T) { b.inAllocation(t, id) })
}

// apart: without a terminal here there is none there, every byte comes through in both directions, standard output and error are apart, what has
// no newline yet is not held back, and the exit code is the command's. srun adds nothing.
func apart(t *testing.T, l launcher.Launcher, id launcher.ID) {
	run := func(stdin io.Reader, command ...string) (code int, stdout, stderr string) {
		t.Helper()
		var out, said bytes.Buffer
		code, err := l.Exec(t.Context(), id, launcher.ExecRequest{Command: command, Stdin: stdin, Stdout: &out, Stderr: &said})
		if err != nil {
			t.Errorf("%q: %v", command, err)
		}
		return code, out.String(), said.String()
	}
	for name, test := range map[string]struct {
		script, stdout, stderr string
		code                   int
	}{
		"no terminal":   {`for n in 0 1 2; do if [ -t $n ]; then echo $n is one; fi; done; echo out; echo "it's err" >&2; exit 3`, "out\n", "it's err\n", 3},
		"no newline":    {`printf 'a\0b\r\n\377'; printf '\004\032' >&2`, "a\x00b\r\n\xff", "\x04\x1a", 0},
		"killed":        {`kill -KILL $$`, "", "", 137},
		"leaves behind": {`sleep 10 & echo gone; exit 4`, "gone\n", "", 4},
		"closes both":   {`exec >&- 2>&-; sleep 0.2; exit 5`, "", "", 5},
		"not found":     {`exec 2>/dev/null; exec /no/such/program`, "", "", 127},
	} {
		if code, out, said := run(nil, "sh", "-c", test.script); code != test.code || out != test.stdout || said != test.stderr {
			t.Errorf("%s: code %d, stdout %q, stderr %q", name, code, out, said)
		}
	}
	sent := make([]byte, 5<<20+17)
	_, _ = rand.Read(sent) // never fails (crypto/rand)
	if code, out, said := run(bytes.NewReader(sent), "cat"); code != 0 || out != string(sent) || said != "" {
		t.Errorf("there and back: code %d, %d of %d bytes, the same: %v, stderr %.200q", code, len(out), len(sent), out == string(sent), said)
	}
	if code, out, said := run(bytes.NewReader(sent), "sh", "-c", "cat >&2"); code != 0 || out != "" || said != string(sent) {
		t.Errorf("back as its errors: code %d, %d of %d bytes, the same: %v, stdout %.200q", code, len(said), len(sent), said == string(sent), out)
	}
	archive, in := io.Pipe() // tar refuses to write to a terminal
	go func() {
		_, err := l.Exec(t.Context(), id, launcher.ExecRequest{Command: []string{"tar", "-C", "/", "-cf", "-", "--", "etc/hosts"}, Stdout: in})
		in.CloseWithError(err)
	}()
	if text, err := io.ReadAll(archive); err != nil || len(text) == 0 {
		t.Errorf("tar: %d bytes, %v", len(text), err)
	}
	prompts(t, l, id)
}

// prompts: a question without a newline is seen before it is answered.
func prompts(t *testing.T, l launcher.Launcher, id launcher.ID) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	keyboard, typed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer keyboard.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer in.Close()
		code, err := l.Exec(t.Context(), id, launcher.ExecRequest{Command: []string{"sh", "-c", `printf 'who? '; read name; echo "$name"`}, Stdin: keyboard, Stdout: in})
		if code != 0 || err != nil {
			t.Errorf("code %d, %v", code, err)
		}
	}()
	terminaltest.ReadUntil(t, out, "who? ")
	if _, err := io.WriteString(typed, "me\n"); err != nil {
		t.Error(err)
	}
	terminaltest.ReadUntil(t, out, "me\n")
	typed.Close()
	<-ended
}

// inAllocation: what an allocation with more memory than the cluster's job, or a user for his own steps, has set for srun is not for ours.
func (b *bed) inAllocation(t *testing.T, id launcher.ID) {
	given := b.allocation(t)
	usable := func(t *testing.T, l *slurm.Launcher) {
		var out, said bytes.Buffer
		command := []string{"sh", "-c", `echo $SLURM_JOB_NAME $SLURM_NTASKS $SLURM_MEM_PER_CPU$PMI_RANK$SLURM_JWT`}
		code, err := l.Exec(t.Context(), id, launcher.ExecRequest{Command: command, Stdout: &out, Stderr: &said})
		if want := "rayctl 1\n"; code != 0 || err != nil || out.String() != want || said.Len() > 0 {
			t.Errorf("exec: code %d, %v, %q, want %q; %s", code, err, out.String(), want, said.String())
		}
		if via, err := answers(t.Context(), l, id, launcher.Keeper); err != nil || !strings.HasPrefix(via, "srun ") {
			t.Errorf("a step to the keeper: %q, %v", via, err)
		}
		for _, c := range l.Check(t.Context(), b.spec()) {
			if !c.OK && c.Name != "clock" {
				t.Errorf("doctor: %+v", c)
			}
		}
	}
	t.Run("here", func(t *testing.T) {
		inside := b.beside
		inside.Env = append(append([]string{}, b.Env...), given...)
		usable(t, launcherOf(inside))
	})
	t.Run("by ssh", func(t *testing.T) {
		var lines strings.Builder
		for _, v := range given {
			name, value, _ := strings.Cut(v, "=")
			lines.WriteString("export " + name + "='" + value + "'\n")
		}
		startup := filepath.Join(b.Home(""), ".bashrc") // bash reads it when sshd runs it
		if err := os.WriteFile(startup, []byte(lines.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(startup)
		usable(t, b.ssh(t))
	})
}

// allocation is the environment of a real allocation that is there until the test's end, and more that changes what srun does.
func (b *bed) allocation(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(b.Cluster.Dir, "shared", "allocation")
	script := `env | grep '^SLURM_' >"$1.new"; mv "$1.new" "$1"; exec cat`
	salloc := b.beside.Command(context.Background(), "salloc", "--quiet", "--nodes=1", "--ntasks=2", "--mem-per-cpu=3000", "sh", "-c", script, "sh", file)
	stays, err := salloc.StdinPipe()
	if err == nil {
		err = salloc.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stays.Close()
		if err := salloc.Wait(); err != nil {
			t.Error(err)
		}
	})
	var text []byte
	b.Await(t, "the allocation", func(context.Context) (bool, error) {
		var err error
		text, err = os.ReadFile(file)
		return err == nil, err
	})
	if !bytes.Contains(text, []byte("SLURM_MEM_PER_CPU=3000")) {
		t.Errorf("the allocation's environment: %s", text)
	}
	given := []string{"SLURM_JWT=not.a.token", "SLURM_EXCLUSIVE=1", "SLURM_LABELIO=1", "SLURM_PARTITION=nosuch", "SRUN_OUTPUT=/dev/null", "PMI_RANK=7"}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "SLURM_CONF=") {
			given = append(given, line)
		}
	}
	return given
}
