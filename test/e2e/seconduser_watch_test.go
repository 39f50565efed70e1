package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/test/leak"
)

// watch is the attacker's scan of /proc from before a cluster to after it, with what it must not find.
type watch struct {
	t       *testing.T
	in      io.WriteCloser
	out     *bufio.Reader
	wait    func() error
	secrets map[string]string // name and text
	control string            // an argument of the victim's program that must be found
}

func (s *secondUser) watch() *watch {
	w := &watch{t: s.t, secrets: map[string]string{}}
	w.in, w.out, w.wait = s.program("watch")
	w.look()
	return w
}

// look waits for a complete scan.
func (w *watch) look() {
	w.t.Helper()
	if _, err := io.WriteString(w.in, "look\n"); err != nil {
		w.t.Fatal(err)
	}
	if line, err := w.out.ReadString('\n'); err != nil {
		w.t.Fatalf("the attacker's watch: %q, %v", line, err)
	}
}

// end checks the findings.
func (w *watch) end() {
	w.t.Helper()
	w.in.Close()
	var found seen
	if err := json.NewDecoder(w.out).Decode(&found); err != nil {
		w.t.Fatal(err)
	}
	if err := w.wait(); err != nil {
		w.t.Error(err)
	}
	all := strings.Join(slices.Collect(maps.Keys(found.Texts)), "\n")
	for what, secret := range w.secrets {
		for text := range found.Texts {
			if how := leak.Find([]byte(text), secret); how != "" {
				w.t.Errorf("another user sees the %s (%q) in /proc, %s: %.500q", what, secret, how, text)
			}
		}
	}
	if len(w.secrets) == 0 || w.control == "" || !strings.Contains(all, w.control) {
		w.t.Errorf("%q is not in what the attacker saw: this test would not find anything", w.control)
	}
	if len(found.Opened) > 0 {
		w.t.Errorf("another user opens files of the victim's processes in /proc: %v", found.Opened)
	}
}

// start runs rayctl as the user in the background; SIGINT ends it.
func (s *secondUser) start(args ...string) *screen {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	c := &screen{t: s.t, cmd: s.exec(ctx, home.rayctl, args...), change: make(chan struct{}, 1), read: make(chan struct{})}
	close(c.read)
	c.cmd.Stdout, c.cmd.Stderr = c, c
	if err := c.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { cancel(); c.cmd.Wait() })
	return c
}

// probe makes requests as the user.
func (s *secondUser) probe(requests []request) (responses []response) {
	s.t.Helper()
	in, out, wait := s.program("probe")
	if err := json.NewEncoder(in).Encode(requests); err != nil {
		s.t.Fatal(err)
	}
	in.Close()
	if err := json.NewDecoder(out).Decode(&responses); err != nil {
		s.t.Fatal(err)
	}
	if err := wait(); err != nil || len(responses) != len(requests) {
		s.t.Fatalf("%d of %d responses, %v", len(responses), len(requests), err)
	}
	return responses
}
