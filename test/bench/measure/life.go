package measure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/local/proc"
	"github.com/rayctl/rayctl/test/raytest"
)

// measureRun runs a driver through the whole life of a cluster of one node: rayctl with one command; Ray by starting a head,
// submitting to it, and finally sending the signal that ends a head.
func measureRun(ctx context.Context, b *Bench) ([]Row, error) {
	b.Head.Stop()
	var todayFirst, oursFirst, todayEnd, oursEnd []float64
	err := b.Repeat(ctx, "run", func(ctx context.Context) error {
		first, err := b.startAndSubmit(ctx)
		todayFirst = append(todayFirst, first)
		return err
	}, func(ctx context.Context) error {
		first, end, err := b.rayctlRun(ctx)
		oursFirst, oursEnd = append(oursFirst, first), append(oursEnd, end)
		return err
	}, func(ctx context.Context) error {
		end, err := b.endOfHead(ctx)
		todayEnd = append(todayEnd, end)
		return err
	})
	if err != nil {
		return nil, err
	}
	most := 0.75 * Median(todayFirst)
	return []Row{
		Compare("`run`: command start to driver's first line, 1 node (`ray start --head` + `ray job submit`)", Seconds, todayFirst, oursFirst, most,
			"at most 0.75 of it: "+Seconds(most)),
		Compare("last driver byte to nothing left (SIGTERM to an idle `ray start --head --block` to nothing left)", Seconds, todayEnd, oursEnd, 2, ""),
	}, nil
}

// startAndSubmit returns the seconds until the driver's first line, with Ray's command line. A started head may refuse jobs
// for a while; then the command is repeated at once.
func (b *Bench) startAndSubmit(ctx context.Context) (float64, error) {
	head, err := raytest.Prepare(ctx, raytest.HeadOptions{Version: RayVersion}, b.Say)
	if err != nil {
		return 0, err
	}
	dir, err := b.WorkingDir("first.py")
	if err != nil {
		return 0, err
	}
	const script = `ray=$1 address=$2 python=$3 driver=$4; shift 4; "$@" >&2 && until "$ray" job submit --address "$address" -- "$python" "$driver"; do :; done`
	args := append([]string{b.ray(), head.URL, b.Python, filepath.Join(dir, "first.py")}, head.StartArgs...)
	life, err := b.begin(ctx, head.TempDir, head.Env, script, args...)
	if err != nil {
		return 0, err
	}
	defer life.end()
	if err := life.readDriver(); err != nil {
		return 0, err
	}
	return life.first.Sub(life.begun).Seconds(), nil
}

// rayctlRun returns the seconds until the driver's first line, and from its last byte until no process of the cluster is left.
func (b *Bench) rayctlRun(ctx context.Context) (first, end float64, err error) {
	dir, err := b.WorkingDir("first.py")
	if err != nil {
		return 0, 0, err
	}
	life, err := b.begin(ctx, "", b.Environment(), `exec "$@"`,
		b.Rayctl, "run", "--set", "ray.python="+b.Python, "--", b.Python, filepath.Join(dir, "first.py"))
	if err != nil {
		return 0, 0, err
	}
	defer life.end()
	if err := life.readDriver(); err != nil {
		return 0, 0, err
	}
	gone, err := untilGone(ctx, life.Guarded)
	return life.first.Sub(life.begun).Seconds(), gone.Sub(life.lastByte).Seconds(), err
}

// endOfHead returns the seconds from SIGTERM, just after the end of a job, until nothing is left of the head.
func (b *Bench) endOfHead(ctx context.Context) (float64, error) {
	head, err := raytest.Start(ctx, raytest.HeadOptions{Version: RayVersion}, b.Say)
	if err != nil {
		return 0, err
	}
	defer head.Kill()
	client, err := dashboardclient.New(head.Config())
	if err != nil {
		return 0, err
	}
	if _, err := b.serverTime(ctx, client); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := head.Processes().Terminate(); err != nil {
		return 0, err
	}
	gone, err := untilGone(ctx, head.Processes())
	return gone.Sub(start).Seconds(), err
}

// untilGone returns the time at which the command and all its descendants, including orphans, had ended.
func untilGone(ctx context.Context, g *raytest.Guarded) (time.Time, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		left, err := descendants(g.PID())
		if err != nil || left == 0 {
			return time.Now(), err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("%d processes are left", left)
		}
	}
}

// descendants counts the living descendants.
func descendants(pid int) (int, error) {
	table, err := proc.Table()
	if err != nil {
		return 0, err
	}
	children := map[int][]proc.Process{}
	for _, p := range table {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var count func(pid int) int
	count = func(pid int) (n int) {
		for _, p := range children[pid] {
			n += count(p.PID)
			if !p.Zombie {
				n++
			}
		}
		return n
	}
	return count(pid), nil
}

// life is a running script whose driver is first.py.
type life struct {
	*raytest.Guarded
	output  *os.File
	lines   *bufio.Scanner
	stderr  *os.File
	unwatch func() bool

	begun, first, lastByte time.Time // lastByte by the driver's clock
}

// begin starts a shell script below a guard. The script itself reports its begin, after the guard's own start. dir is removed at the end.
func (b *Bench) begin(ctx context.Context, dir string, env []string, script string, args ...string) (*life, error) {
	output, shell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer shell.Close()
	l := &life{output: output, lines: bufio.NewScanner(output)}
	if l.stderr, err = os.CreateTemp(b.Dir, "stderr-"); err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, "sh", append([]string{"-c", "echo begun; " + script, "sh"}, args...)...)
	command.Env, command.Dir, command.Stdout, command.Stderr = env, b.Dir, shell, l.stderr
	if l.Guarded, err = raytest.Guard(b.Python, dir, command); err != nil {
		return nil, err
	}
	l.unwatch = context.AfterFunc(ctx, l.Kill) // ends the output, too
	return l, nil
}

func (l *life) end() {
	l.unwatch()
	l.Kill()
	_ = l.output.Close()
	_ = l.stderr.Close()
}

// readDriver reads to the driver's last line.
func (l *life) readDriver() error {
	for l.lines.Scan() {
		line, now := l.lines.Text(), time.Now()
		switch text, last := strings.CutPrefix(line, "last byte "); {
		case line == "begun":
			l.begun = now
		case line == "first line":
			l.first = now
		case last:
			at, err := strconv.ParseFloat(text, 64)
			l.lastByte = time.UnixMicro(int64(at * 1e6))
			return err
		}
	}
	said, _ := os.ReadFile(l.stderr.Name())
	return errors.Join(fmt.Errorf("the driver did not run: %s", Tail(said)), l.lines.Err())
}
