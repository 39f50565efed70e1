package launcher

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestRandomOutput: 200 random programs, whose output is followed over connections that are cut at random bytes while it grows, and read again after the end. Both
// show each byte once, and none of Ray's lines. Programs and Ray's logs are made up, the keeper's copy of them and its API are the real ones.
func TestRandomOutput(t *testing.T) {
	const programs = 200
	seed := rand.Uint64N(1 << 32)
	dir := t.TempDir()
	server := exec.Command("python3", "testdata/outputs.py", "../keeper", dir, strconv.FormatUint(seed, 10), strconv.Itoa(programs))
	server.Stderr = os.Stderr
	stdin, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stdin.Close()
		if err := server.Wait(); err != nil {
			t.Error(err)
		}
	}()
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}

	cuts := &cutting{random: rand.New(rand.NewPCG(seed, 0))}
	client := keeper.NewClient(keeper.Endpoint{URL: strings.TrimSpace(address), Token: "secret", DialContext: cuts.dial})
	defer client.Close()
	var live [programs + 1]bytes.Buffer
	for n := range programs {
		follow(t, client, n+1, dir, &live[n+1])
	}
	for n := 1; n <= programs; n++ {
		want, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("program-%d", n)))
		if err != nil {
			t.Fatal(err)
		}
		var after bytes.Buffer
		readSaved(t, keeper.RunDir(dir), n, programs, told(t, dir, "begin", n), &after)
		if !bytes.Equal(live[n].Bytes(), want) || !bytes.Equal(after.Bytes(), want) {
			t.Errorf("seed %d, program %d: printed %d bytes, live %d (equal: %v), after the end %d (equal: %v)", seed, n, len(want),
				live[n].Len(), bytes.Equal(live[n].Bytes(), want), after.Len(), bytes.Equal(after.Bytes(), want))
		}
	}
	if cuts.made < programs/4 {
		t.Errorf("only %d connections were cut: this shows too little", cuts.made)
	}
}

// randomJob is the job of attempt n.
func randomJob(n int) *runstate.Job {
	id := fmt.Sprintf("n-%d", n)
	return &runstate.Job{SubmissionID: id, Entrypoint: "drive", Prepare: &runstate.Prepare{SubmissionID: runstate.PrepareID(id), Entrypoint: "load"}}
}

// follow shows an attempt's output while it grows, as see does: first what job.prepare prints, if there is one, then the driver's.
func follow(t *testing.T, client *keeper.Client, n int, dir string, w io.Writer) {
	t.Helper()
	o := newOutput(nil, "n", RunOptions{Stdout: w, Source: client}, slog.New(slog.DiscardHandler))
	a := o.attempt(randomJob(n), n)
	show := func(begin int64) {
		for err := errors.New("not yet"); err != nil; {
			var refused *keeper.Error
			if err = o.followOnce(t.Context(), a, begin); errors.As(err, &refused) { // any other is a connection that was cut
				t.Fatalf("program %d: %v", n, err)
			}
		}
	}
	if told(t, dir, "prepared", n) > 0 {
		show(runstate.AllPrepare)
		show(told(t, dir, "begin", n))
	} else {
		show(0)
	}
	if err := a.driver.Flush(); err != nil {
		t.Fatal(err)
	}
}

// readSaved shows an attempt's output from the run directory.
func readSaved(t *testing.T, dir keeper.RunDir, n, last int, begin int64, w io.Writer) {
	t.Helper()
	o := newOutput(nil, "n", RunOptions{Stdout: w}, slog.New(slog.DiscardHandler))
	which := n
	if n == last {
		which = 0
	}
	if err := o.attempt(randomJob(n), n).rest(begin, func(offset int64) (io.ReadCloser, error) { return dir.OpenLog(which, offset) }); err != nil {
		t.Fatal(err)
	}
}

// told is a number that testdata/outputs.py tells of attempt n, once it does.
func told(t *testing.T, dir, what string, n int) int64 {
	t.Helper()
	for {
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%s-%d", what, n)))
		if number, bad := strconv.ParseInt(string(text), 10, 64); err == nil && bad == nil {
			return number
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(time.Millisecond):
		}
	}
}

var errCut = errors.New("the connection was cut")

// cutting cuts its connections at random bytes.
type cutting struct {
	random *rand.Rand
	made   int
}

func (c *cutting) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	limit := []int{200 + c.random.IntN(400), 1000 + c.random.IntN(100000), 1 << 20}[c.random.IntN(3)]
	return &cutConn{Conn: conn, left: limit, made: &c.made}, nil
}

// cutConn is a connection that ends after so many bytes.
type cutConn struct {
	net.Conn
	left int
	made *int
}

func (c *cutConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		*c.made++
		return 0, errCut
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
