package tsp_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/local/onemachine"
	"github.com/rayctl/rayctl/test/onemachinetest"
	"github.com/rayctl/rayctl/tsp"
)

const (
	slots    = 6 // more than clusters at the same time, so that only who occupies them makes others wait
	patience = 6 * time.Minute
)

// plain are scenarios that run with ray.fastStart: false. The launcher local runs the same code for them with fast start.
var plain = []string{"exit code 0, output byte for byte, and what is left", "head killed"}

// only are, besides the plain ones, the scenarios that a queue before the nodes' start can break: nodes wait in it, and leave it when their client or keeper dies. The
// launcher local runs the same code for all of them, and `make conformance` runs all of them here, too. The stand-in of a framework runs on each launcher.
var only = []string{"another spec, secrets, terminate", "elastic group", "client killed before the commit", "keeper killed before the gang is there", "queue limit"}

func socketIn(state string) string { return filepath.Join(state, "tsp.socket") }

func TestMain(m *testing.M) {
	conformance.Main(m, func(state string) launcher.Launcher {
		l, err := tsp.New(onemachine.Config{StateDir: state, CacheDir: filepath.Join(state, "cache")}, socketIn(state))
		if err != nil {
			panic(err)
		}
		return l
	})
}

func TestConformance(t *testing.T) {
	c := onemachinetest.Conformance(t)
	q := queue{t, socketIn(c.Setting)}
	q.tsp("-S", strconv.Itoa(slots))
	t.Cleanup(func() { q.tsp("-K") })
	ofMachine := c.Allocated
	c.Allocated = func(t *testing.T, id launcher.ID) []string {
		t.Helper()
		left := ofMachine(t, id)
		for _, line := range q.unfinished() {
			if strings.Contains(line, "["+string(id)+"]") {
				left = append(left, "queued "+line)
			}
		}
		return left
	}
	c.Occupy, c.Patience = q.occupy, patience
	c.Plain, c.Only = plain, slices.Concat(plain, only)
	conformance.Run(t, c)
}

// queue is the real one, asked by its own program.
type queue struct {
	t      *testing.T
	socket string
}

func (q queue) tsp(arguments ...string) string {
	q.t.Helper()
	cmd := exec.Command("tsp", arguments...)
	cmd.Env = append(os.Environ(), "TS_SOCKET="+q.socket, "TMPDIR="+filepath.Dir(q.socket))
	cmd.Stderr = os.Stderr
	file, err := os.CreateTemp(q.t.TempDir(), "out") // no pipe: the server, which the first call starts, would keep it open
	if err != nil {
		q.t.Error(err)
		return ""
	}
	defer file.Close()
	cmd.Stdout = file
	if err := cmd.Run(); err != nil {
		q.t.Errorf("tsp %v: %v", arguments, err)
	}
	out, err := os.ReadFile(file.Name())
	if err != nil {
		q.t.Error(err)
	}
	return strings.TrimSpace(string(out))
}

// unfinished are the lines of jobs that wait or run.
func (q queue) unfinished() (lines []string) {
	for line := range strings.Lines(q.tsp("-l")) {
		if f := strings.Fields(line); len(f) > 1 && (f[1] == "running" || f[1] == "queued") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// occupy takes each slot as it becomes free, before whoever comes later.
func (q queue) occupy(t *testing.T) func() {
	t.Helper()
	var jobs []string
	for range slots {
		jobs = append(jobs, q.tsp("sleep", "3600"))
	}
	return func() {
		for _, id := range jobs {
			for _, line := range q.unfinished() {
				switch f := strings.Fields(line); {
				case f[0] == id && f[1] == "running":
					q.tsp("-k", id)
				case f[0] == id:
					q.tsp("-r", id)
				}
			}
		}
	}
}
