package dashboardclient_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/test/raytest"
)

// follow runs a command as a job and returns its output as followed live.
func follow(t *testing.T, ctx context.Context, client *dashboardclient.Client, command string) ([]byte, *dashboardclient.Job) {
	t.Helper()
	var out bytes.Buffer
	follower := client.FollowJob(submit(t, ctx, client, command), dashboardclient.FollowOptions{StripHeader: true})
	job, err := follower.Run(ctx, &out)
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), job
}

// same compares long outputs without printing them.
func same(t *testing.T, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	t.Fatalf("%d bytes instead of %d, different from byte %d on: %.80q instead of %.80q", len(got), len(want), at, got[at:], want[at:])
}

func numbers(n int) []byte {
	var out []byte
	for i := 1; i <= n; i++ {
		out = append(strconv.AppendInt(out, int64(i), 10), '\n')
	}
	return out
}

// rawBytes are all byte values, CRLF and no newline at the end.
func rawBytes() []byte {
	var out []byte
	for b := range 256 {
		out = append(out, byte(b))
	}
	return append(out, "\r\none\r\ntwo\rthree\xff\xfe"...)
}

func TestFollowIsByteForByte(t *testing.T) {
	outputs := map[string]struct {
		command string
		want    []byte
	}{
		"one line":        {"echo hello", []byte("hello\n")},
		"nothing":         {"true", nil},
		"million lines":   {"seq 1000000", numbers(1000000)},
		"10 MB line":      {"head -c 10000000 /dev/zero | tr '\\0' x; echo", append(bytes.Repeat([]byte("x"), 10000000), '\n')},
		"binary and CRLF": {"printf %s " + base64.StdEncoding.EncodeToString(rawBytes()) + " | base64 -d", rawBytes()},
		"like Ray's own":  {"sleep 0.3; echo 'Running entrypoint for job x: y'", []byte("Running entrypoint for job x: y\n")},
	}
	onEach(t, func(t *testing.T, client *dashboardclient.Client, ctx context.Context) {
		for name, output := range outputs {
			t.Run(name, func(t *testing.T) {
				got, job := follow(t, ctx, client, output.command)
				same(t, got, output.want)
				if job.Status != dashboardclient.JobSucceeded {
					t.Errorf("the job ended %s: %s", job.Status, job.Message)
				}
			})
		}
	})
}

func TestFollowSurvivesCutStreams(t *testing.T) {
	head := raytest.Shared(t, raytest.Ray260)
	proxy := raytest.NewProxy(t, head)
	client := proxy.Client(t, head)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var cuts atomic.Int64
	random := rand.New(rand.NewPCG(1, 2))
	proxy.Break(func(r *http.Request) raytest.Fault {
		switch {
		case strings.HasSuffix(r.URL.Path, "/logs/stream") && cuts.Add(1) < 12:
			return raytest.Fault{CutAfter: 1 + random.Int64N(20000*cuts.Load())}
		case strings.HasSuffix(r.URL.Path, "/logs/file") && cuts.Add(1) < 16:
			return raytest.Fault{CutAfter: 150000}
		case random.IntN(10) == 0:
			return raytest.Fault{Refuse: true}
		}
		return raytest.Fault{}
	})
	var lost, found int
	var out bytes.Buffer
	follower := client.FollowJob(submit(t, ctx, client, "for i in 1 2 3 4 5 6 7 8 9 10; do seq 5000; sleep 0.3; done; sleep 1; printf end"),
		dashboardclient.FollowOptions{StripHeader: true, OnInterrupted: func(err error) {
			if err != nil {
				lost++
			} else {
				found++
			}
		}})
	if _, err := follower.Run(ctx, &out); err != nil {
		t.Fatal(err)
	}
	same(t, out.Bytes(), append(bytes.Repeat(numbers(5000), 10), "end"...))
	if lost == 0 || lost != found {
		t.Errorf("reported %d losses and %d recoveries", lost, found)
	}
}

// shortWriter fails after some bytes, as a closed pipe does.
type shortWriter struct {
	bytes.Buffer
	left int
}

func (w *shortWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.left -= n
	w.Buffer.Write(p[:n])
	if n < len(p) {
		return n, fmt.Errorf("no room")
	}
	return n, nil
}

func TestFollowReportsTheWritersError(t *testing.T) {
	t.Parallel()
	client, ctx := newest(t)
	id := submit(t, ctx, client, "while true; do echo line; sleep 0.05; done")
	_, err := client.FollowJob(id, dashboardclient.FollowOptions{}).Run(ctx, &shortWriter{left: 200})
	if err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("Run returned %v", err)
	}
	if _, err := client.StopJob(ctx, id); err != nil {
		t.Fatal(err)
	}
}

// TestFollowGoesOnAtOffset stops following in the middle, and continues with another Follower: together they show everything once.
func TestFollowGoesOnAtOffset(t *testing.T) {
	t.Parallel()
	client, ctx := newest(t)
	wait, open := gate(t)
	id := submit(t, ctx, client, "seq 1000; "+wait+"; seq 1000")
	first, stop := context.WithCancel(ctx)
	defer stop()
	var shown watchedBuffer
	shown.contains("\n100\n", stop)
	follower := client.FollowJob(id, dashboardclient.FollowOptions{StripHeader: true})
	if _, err := follower.Run(first, &shown); err == nil {
		t.Fatal("following did not end with its context")
	}
	open()
	var rest bytes.Buffer
	job, err := client.FollowJob(id, dashboardclient.FollowOptions{StripHeader: true, Offset: follower.Offset()}).Run(ctx, &rest)
	if err != nil || job.Status != dashboardclient.JobSucceeded {
		t.Fatal(job, err)
	}
	same(t, append(shown.buffer.Bytes(), rest.Bytes()...), bytes.Repeat(numbers(1000), 2))
}

// watchedBuffer calls back once it contains some text.
type watchedBuffer struct {
	buffer bytes.Buffer
	text   string
	call   func()
}

func (b *watchedBuffer) contains(text string, call func()) { b.text, b.call = text, call }

func (b *watchedBuffer) Write(p []byte) (int, error) {
	b.buffer.Write(p)
	if b.call != nil && bytes.Contains(b.buffer.Bytes(), []byte(b.text)) {
		b.call()
		b.call = nil
	}
	return len(p), nil
}

// gate returns a shell command that waits, and a function that lets it continue.
func gate(t *testing.T) (wait string, open func()) {
	path := filepath.Join(t.TempDir(), "open")
	return "until [ -e '" + path + "' ]; do sleep 0.1; done", func() {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	client, ctx := newest(t)
	wait, open := gate(t)
	id := submit(t, ctx, client, "seq 100000; "+wait+"; echo last")
	ready, stop := context.WithCancel(ctx)
	defer stop()
	var all watchedBuffer
	all.contains("\n100000\n", stop)
	_, _ = client.FollowJob(id, dashboardclient.FollowOptions{StripHeader: true}).Run(ready, &all)
	var live watchedBuffer
	live.contains("\n100000\n", open)
	if _, err := client.FollowJob(id, dashboardclient.FollowOptions{Tail: 3, StripHeader: true}).Run(ctx, &live); err != nil {
		t.Fatal(err)
	}
	same(t, live.buffer.Bytes(), []byte("99998\n99999\n100000\nlast\n"))
	var done bytes.Buffer
	if err := client.JobLog(ctx, id, &done, dashboardclient.LogOptions{Tail: 2, StripHeader: true}); err != nil {
		t.Fatal(err)
	}
	same(t, done.Bytes(), []byte("100000\nlast\n"))
}

// TestLatency prints the delay until lines are shown. It asserts nothing about it: the machine may be busy.
func TestLatency(t *testing.T) {
	client, ctx := newest(t)
	var late []time.Duration
	stamps := writerFunc(func(p []byte) {
		now := time.Now()
		for line := range strings.Lines(string(p)) {
			if sent, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil {
				late = append(late, now.Sub(time.Unix(0, sent)))
			}
		}
	})
	id := submit(t, ctx, client, "for i in $(seq 40); do date +%s%N; sleep 0.07; done")
	if _, err := client.FollowJob(id, dashboardclient.FollowOptions{StripHeader: true}).Run(ctx, stamps); err != nil {
		t.Fatal(err)
	}
	if len(late) != 40 {
		t.Fatalf("%d lines of 40", len(late))
	}
	t.Logf("line printed to line shown: median %s", median(late))
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}
