// Command times runs `go test -json` and prints where the minutes go: `go run ./test/times -- go test -json -p 2 ./...`.
//
// For each test it prints the running time, and the processor seconds of the whole machine in that time, shared evenly among the tests that ran
// together (a test that waits for its subtests, or for its turn, does not run). A test with much time and few processor seconds waits: others can run
// in parallel. The output of failed tests follows the table. The exit code is the command's.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/rayctl/rayctl/test/pace"
)

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: times -- go test -json ...")
		os.Exit(2)
	}
	if err := run(args); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() > 0 {
			os.Exit(exit.ExitCode())
		}
		fmt.Fprintln(os.Stderr, "times:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	c := exec.CommandContext(context.Background(), args[0], args[1:]...) //nolint:gosec // the command line's own
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run %s: %w", args[0], err)
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("run %s: %w", args[0], err)
	}
	events := make(chan event)
	go func() {
		defer close(events)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				events <- e
			}
		}
	}()
	b := newBook()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case e, more := <-events:
			if !more {
				b.print(os.Stdout)
				return c.Wait()
			}
			b.spend(busySeconds(), time.Now())
			b.take(e)
		case <-tick.C:
			b.spend(busySeconds(), time.Now())
		}
	}
}

// busySeconds is the processor time of the machine since its start; 0 where it is not known.
func busySeconds() float64 {
	seconds, err := pace.Busy()
	if err != nil {
		return 0
	}
	return seconds
}

// sorted returns a book's entries, longest first.
func sorted(entries map[test]*cost) []test {
	var out []test
	for t := range entries {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b test) int {
		if entries[a].wall != entries[b].wall {
			return int(entries[b].wall - entries[a].wall)
		}
		return strings.Compare(a.pkg+a.name, b.pkg+b.name)
	})
	return out
}
