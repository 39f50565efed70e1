package keeper_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// scene is how many there are in TestFlood. There are more strangers than the keeper keeps, an eighth of the descriptors that it may have at most, and more connections than
// descriptors at its start.
type scene struct{ friends, strangers, soft, hard int }

var (
	small = scene{friends: 100, strangers: 500, soft: 512, hard: 2048}
	whole = scene{friends: 500, strangers: 2000, soft: 1024, hard: 8192} // of `make conformance`
)

// TestFlood: while a stranger keeps opening connections to the keeper's port, all clients that have the token get every byte of the output, a new client is served,
// and the run ends with the driver's code. keeper/tests/api/test_flood.py is the same for a keeper that can get few descriptors.
func TestFlood(t *testing.T) {
	n := small
	if os.Getenv("RAYCTL_TEST_WHOLE") != "" {
		n = whole
	}
	over := filepath.Join(t.TempDir(), "over")
	r := newRig(t, fmt.Sprintf(`ulimit -S -n; for i in $(seq 100000); do echo "line $i"; done; echo ALL; while ! test -e '%s'; do sleep 0.2; done; echo LAST; exit 7`, over), nil)
	r.wrap = []string{"sh", "-c", fmt.Sprintf(`ulimit -S -n %d && ulimit -H -n %d && exec "$@"`, n.soft, n.hard), "sh"} // it may raise the first
	r.start(nil)
	r.state("the keeper is there", func(*runstate.State) bool { return true })
	defer r.flood(n.strangers)() // before the driver runs, too
	r.commit(keeper.Commit{})
	r.eventually("the driver has printed", func() bool { return r.printed("\nALL\n") })
	var wait sync.WaitGroup
	var have, ends atomic.Int64
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for range n.friends {
		c := r.client()
		wait.Go(func() { have.Add(follow(ctx, t, c, "\nALL\n")) })
		wait.Go(func() { ends.Add(watch(ctx, c)) })
	}
	r.eventually("all clients have the output", func() bool { return have.Load() == int64(n.friends) || t.Failed() })
	c := r.client()
	state, err := next(ctx, c)
	r.must(err)
	if state.Job.State != runstate.JobRunning {
		t.Errorf("the driver is %s", state.Job.State)
	}
	r.must(os.WriteFile(over, nil, 0o600))
	s := r.result()
	if s.Exit.Cause != runstate.CauseDriverFailed || s.Exit.Code != 7 || len(s.Log.Missing) > 0 || !r.printed("\nALL\nLAST\n") {
		t.Errorf("%+v, %+v", s.Exit, s.Log)
	}
	cancel()
	wait.Wait()
	t.Logf("%d of %d clients saw the end from the keeper", ends.Load(), n.friends)
	if first := r.log(); !strings.Contains(first[:min(len(first), 1000)], fmt.Sprintln(n.soft)) {
		t.Errorf("the driver has another limit than the keeper was given: %.300q", first)
	}
	for _, text := range []string{"cannot write", "Too many open files", "Traceback"} {
		if strings.Contains(r.story(), text) {
			t.Errorf("keeper.log has %q:\n%s", text, r.story())
		}
	}
}

// printed tells whether the keeper has this of the output.
func (r *rig) printed(text string) bool {
	log, err := os.ReadFile(filepath.Join(string(r.dir), "driver.log"))
	return err == nil && bytes.Contains(log, []byte(text))
}

// next asks until a connection has not been dropped before the request came.
func next(ctx context.Context, c *keeper.Client) (*runstate.State, error) {
	for s, err := range c.Watch(ctx) {
		if err == nil {
			return s, nil
		}
	}
	return nil, ctx.Err()
}

// watch returns 1 if it has seen the end.
func watch(ctx context.Context, c *keeper.Client) int64 {
	for s, err := range c.Watch(ctx) {
		if err == nil && s.Exit != nil {
			return 1
		}
	}
	return 0
}

// follow reads the output until it has a text, and returns 1 if it then has all that a file has.
func follow(ctx context.Context, t *testing.T, c *keeper.Client, until string) int64 {
	var got []byte
	for !bytes.Contains(got, []byte(until)) {
		reader, err := c.Log(ctx, 0, int64(len(got)))
		if err == nil {
			var piece []byte
			piece, err = io.ReadAll(reader)
			reader.Close()
			got = append(got, piece...)
		}
		if ctx.Err() != nil {
			t.Errorf("a client has %d bytes: %v", len(got), errors.Join(ctx.Err(), err))
			return 0
		}
	}
	count := 0
	for line := range strings.Lines(string(got)) { // Ray writes lines of its own among them
		if number, found := strings.CutPrefix(line, "line "); found {
			if count++; number != fmt.Sprintln(count) {
				t.Errorf("line %d is %q", count, line)
				return 0
			}
		}
	}
	if count != 100000 {
		t.Errorf("a client has %d lines", count)
		return 0
	}
	return 1
}

// flood opens connections to the keeper again and again: silent ones, ones that send a byte of a header each second, and ones that send garbage. It returns when each
// was open once.
func (r *rig) flood(strangers int) (stop func()) {
	s, err := r.dir.State()
	r.must(err)
	address, err := url.Parse(s.Keeper.URL)
	r.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var all, opened sync.WaitGroup
	for i := range strangers {
		opened.Add(1)
		all.Go(func() {
			var once sync.Once
			for ctx.Err() == nil {
				conn, err := new(net.Dialer).DialContext(ctx, "tcp", address.Host)
				if err != nil {
					continue
				}
				once.Do(opened.Done)
				bother(ctx, conn, i)
			}
			once.Do(opened.Done)
		})
	}
	opened.Wait()
	return func() {
		cancel()
		all.Wait()
	}
}

// bother keeps a connection as long as the keeper does.
func bother(ctx context.Context, conn net.Conn, kind int) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	switch kind % 3 {
	case 1:
		go func() {
			for _, b := range []byte("GET /v1/state HTTP/1.1\r\nX-Long: " + strings.Repeat("x", 1000)) {
				if _, err := conn.Write([]byte{b}); err != nil {
					return
				}
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Second):
				}
			}
		}()
	case 2:
		_, _ = conn.Write([]byte(rand.Text() + rand.Text()))
	}
	_, _ = io.Copy(io.Discard, conn)
}
