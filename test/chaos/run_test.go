//go:build linux

package chaos

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// patience bounds each wait. No result depends on how long something took.
const patience = 6 * time.Minute

// runningCase is a case whose cluster runs.
type runningCase struct {
	t        *testing.T
	w        world
	d        drawn
	f        fault
	book     book
	job      string // the working directory
	secret   string
	client   *exec.Cmd
	out, err transcript
	ended    chan error // of the client

	second    *exec.Cmd
	secondOut transcript
	struck    bool
	shown     int // the last line that the client had before the strike
	printed   int // the last line that the driver had printed after it
	compared  int // looks at its status
	mu        sync.Mutex
	stolen    int  // ports
	own       bool // the exit is the driver's own
}

// runCase launches, injects the fault, waits for the end, and checks. It returns whether the fault found its target, and whether `status` and `ls` could be
// compared when it had.
func runCase(t *testing.T, w world, d drawn) (hit, compared bool) {
	t.Log(d)
	r := &runningCase{t: t, w: w, d: d, f: faultsOf(w, d.kind)[d.fault]}
	r.prepare()
	t.Cleanup(func() {
		r.rayctl("down", "--now", d.run())
		w.settle(t)
	})
	w.hold(r.f.closed)
	if r.f.before != nil {
		r.f.before(r)
	}
	r.client = r.start(&r.out)
	r.ended = make(chan error, 1)
	go func() { r.ended <- r.client.Wait() }()
	r.awaitMoment()
	r.lookForSecrets("when it was struck")
	r.shown = lastShown(r.out.String())
	r.struck = r.f.strike(r)
	r.printed = r.book.furthest()
	r.oneStatus("after it was struck", false)
	if r.f.closed {
		time.Sleep(3 * time.Second) // what the fault began happens before the gang could come
		w.hold(false)
	}
	clientCode := r.awaitClient()
	status := r.awaitEnd()
	r.check(clientCode, status)
	t.Logf("%s: struck: %v, the client's exit code: %d, failed: %v", time.Now().Format(time.TimeOnly), r.struck, clientCode, t.Failed())
	if t.Failed() {
		t.Logf("%s\nstruck: %v\nclient's stdout ends: %s\nclient's stderr: %s\n%s", d, r.struck, lastLines(r.out.String(), 4), lastLines(r.err.String(), 30), w.story(d.run()))
	}
	return r.struck, r.compared > 1
}

// prepare writes the working directory with the cluster file, and the book.
func (r *runningCase) prepare() {
	dir := filepath.Join(r.w.dir(), r.d.run())
	r.job, r.book = filepath.Join(dir, "job"), book(filepath.Join(dir, "book"))
	random := make([]byte, 12)
	_, _ = rand.Read(random) // never fails, see crypto/rand
	r.secret = "s3cr3t '$(id)' " + hex.EncodeToString(random)
	for _, path := range []string{r.job, string(r.book)} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := os.Chmod(string(r.book), 0o777); err != nil { // pods have other users
		r.t.Fatal(err)
	}
	for name, text := range map[string]string{
		"job/driver.py": r.read("testdata/job/driver.py"), "job/part.py": r.read("testdata/job/part.py"),
		"secret": r.secret, "rayctl.yaml": r.file(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *runningCase) read(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// file is the cluster file.
func (r *runningCase) file() string {
	digest := sha256.Sum256([]byte(r.secret))
	entrypoint := fmt.Sprintf("exec python driver.py %s %d %.3f %d %s %d", shellescape.Quote(string(r.book)), r.d.lines, r.d.pause.Seconds(), r.d.code, hex.EncodeToString(digest[:]), r.d.bursts)
	text, err := json.Marshal(entrypoint)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.w.file(r.d, string(r.book)) + "secrets: [{name: WORD, file: secret}]\nlifetime: {max: 20m}\n" +
		"job:\n  entrypoint: " + string(text) + "\n  workingDir: job\n  env: {FROM_JOB: \"a 'value' of the job\"}\n" +
		fmt.Sprintf("  restarts: {nodeFailure: %d}\n", r.d.restarts) + r.preparation()
}

// preparation is the part of the job that a cluster with an early head has.
func (r *runningCase) preparation() string {
	if r.d.kind != early {
		return ""
	}
	text, err := json.Marshal(strings.ReplaceAll(cmp.Or(r.f.prepare, "echo prepared"), "BOOK", string(r.book)))
	if err != nil {
		r.t.Fatal(err)
	}
	return "  prepare: " + string(text) + "\n  start: " + r.d.start + "\n"
}

// start runs the tested command.
func (r *runningCase) start(out *transcript) *exec.Cmd {
	dir := filepath.Dir(r.job)
	c := r.w.command(context.Background(), "run", "-f", filepath.Join(dir, "rayctl.yaml"), "--name", r.d.run(), "--receipt", filepath.Join(dir, "receipt.json"))
	c.Stdout, c.Stderr = out, &r.err
	if out != &r.out {
		c.Stderr = nil
	}
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// rayctl runs another command to its end.
func (r *runningCase) rayctl(args ...string) result {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := r.w.command(ctx, args...)
	c.Env = append(c.Env, "RAYCTL_FILE="+filepath.Join(filepath.Dir(r.job), "rayctl.yaml"))
	return ask(c)
}

func (r *runningCase) processes() []process { return r.w.processes(r.d.run()) }

// awaitMoment returns when the fault is due, or when the run has ended before.
func (r *runningCase) awaitMoment() {
	limit := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	if r.f.closed && !r.awaitGang() && !r.over() {
		r.t.Errorf("the gang never waited\n%s\n%s", lastLines(r.err.String(), 20), r.w.story(r.d.run()))
	}
	for r.d.moment.line > 0 && r.book.furthest() < r.d.moment.line {
		select {
		case err := <-r.ended:
			r.ended <- err
			return
		case <-limit:
			r.t.Fatalf("the driver never printed line %d\n%s\n%s", r.d.moment.line, lastLines(r.err.String(), 20), r.w.story(r.d.run()))
		case <-tick.C:
		}
	}
	time.Sleep(r.d.moment.after)
}

// awaitClient returns the client's exit code.
func (r *runningCase) awaitClient() int {
	select {
	case err := <-r.ended:
		return exitCode(r.client, err)
	case <-time.After(patience):
		_ = r.client.Process.Kill()
		r.t.Errorf("the client did not end\n%s", lastLines(r.err.String(), 20))
		return -1
	}
}

// awaitEnd returns the status of the ended run; nil: it has no record.
func (r *runningCase) awaitEnd() *launcher.Status {
	for limit := time.Now().Add(patience); ; time.Sleep(500 * time.Millisecond) {
		a := r.rayctl("status", r.d.run(), "-o", "json")
		var s launcher.Status
		switch {
		case a.code == runstate.CodeSpec:
			return nil
		case a.code == 0 && json.Unmarshal([]byte(a.out), &s) == nil && s.Phase == runstate.Gone:
			return &s
		case time.Now().After(limit):
			r.t.Fatalf("the run did not end; its status (code %d): %s%s\n%s", a.code, a.out, a.err, r.w.story(r.d.run()))
		}
	}
}
