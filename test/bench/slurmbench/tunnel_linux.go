package slurmbench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/test/bench/measure"
	"github.com/rayctl/rayctl/test/slurmtest"
)

const (
	pings    = 200
	bulkSize = 32 << 20 // bytes
)

// tunnelled has the results of one kind of connection into a job.
type tunnelled struct{ first, trip, bulk []float64 }

// measureTunnel compares a connection through rayctl's job step, which carries many connections, with one srun and a relay for one connection.
// Users without rayctl would write the latter.
func measureTunnel(ctx context.Context, b *measure.Bench) ([]measure.Row, error) {
	s, err := newSite(ctx, b, slurmtest.Options{})
	if err != nil {
		return nil, err
	}
	rows, err := s.tunnel(ctx)
	return rows, errors.Join(err, s.Close())
}

func (s *slurmSite) tunnel(ctx context.Context) ([]measure.Row, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cluster := s.Command(ctx, "", s.b.Rayctl, "run", "--launcher", "slurm", "--set", "slurm.exclusive=true", "--set", "ray.python="+s.b.Python, "--name", "tunnel", "--", "sleep", "100000")
	cluster.Cancel = func() error { return cluster.Process.Signal(syscall.SIGTERM) } // so that rayctl ends its run
	cluster.WaitDelay = time.Minute
	if err := cluster.Start(); err != nil {
		return nil, err
	}
	defer func() { _ = cluster.Wait() }() // its exit code only reports the interrupt
	defer cancel()
	if err := s.untilJob(ctx, "tunnel", "RUNNING"); err != nil {
		return nil, err
	}
	if err := s.untilDriver(ctx, "tunnel"); err != nil {
		return nil, err
	}
	port, err := s.peer(ctx)
	if err != nil {
		return nil, err
	}
	job, err := s.Slurm(ctx, "squeue", "--noheader", "--name=tunnel", "--format=%i")
	if err != nil {
		return nil, err
	}
	var bare, ours tunnelled
	err = s.b.Repeat(ctx, "slurm, tunnel", func(ctx context.Context) error {
		return bare.measure(func() (io.ReadWriteCloser, error) { return s.bare(ctx, job, port) })
	}, func(ctx context.Context) error {
		l := slurm.New(slurm.Config{Runner: besideController{s}}) // a new stream each time, to a known cluster
		defer l.Close()
		if _, err := l.List(ctx, launcher.Selector{}); err != nil {
			return err
		}
		return ours.measure(func() (io.ReadWriteCloser, error) { return l.DialNode(ctx, launcher.ID("tunnel"), "", port) })
	})
	if err != nil {
		return nil, err
	}
	const within = 1.2
	return []measure.Row{
		measure.Compare("tunnel into a job: opened to first byte (bare relay)", measure.Seconds, bare.first, ours.first, within*measure.Median(bare.first), "at most 1.2 of it"),
		measure.Compare("tunnel into a job: round trip (bare relay)", microseconds, bare.trip, ours.trip, within*measure.Median(bare.trip), "at most 1.2 of it"),
		measure.Compare("tunnel into a job: 32 MiB to here (bare relay)", measure.Seconds, bare.bulk, ours.bulk, within*measure.Median(bare.bulk), "at most 1.2 of it"),
	}, nil
}

func microseconds(v float64) string { return fmt.Sprintf("%.0f µs", v*1e6) }

// measure takes each figure once.
func (t *tunnelled) measure(open func() (io.ReadWriteCloser, error)) error {
	began := time.Now()
	echo, err := open()
	if err != nil {
		return err
	}
	defer echo.Close()
	one := make([]byte, 1)
	ping := func(text string) error {
		if _, err := io.WriteString(echo, text); err != nil {
			return err
		}
		_, err := io.ReadFull(echo, one)
		return err
	}
	if err := ping("e."); err != nil {
		return fmt.Errorf("first byte: %w", err)
	}
	t.first = append(t.first, time.Since(began).Seconds())
	var trips []float64
	for range pings {
		began := time.Now()
		if err := ping("."); err != nil {
			return fmt.Errorf("round trip: %w", err)
		}
		trips = append(trips, time.Since(began).Seconds())
	}
	t.trip = append(t.trip, measure.Median(trips))
	return t.takeBulk(open)
}

func (t *tunnelled) takeBulk(open func() (io.ReadWriteCloser, error)) error {
	bulk, err := open()
	if err != nil {
		return err
	}
	defer bulk.Close()
	if _, err := fmt.Fprintf(bulk, "s%d\n", bulkSize); err != nil {
		return err
	}
	if _, err := io.ReadFull(bulk, make([]byte, 1)); err != nil {
		return err
	}
	began := time.Now() // connected
	if _, err := io.CopyN(io.Discard, bulk, bulkSize-1); err != nil {
		return fmt.Errorf("bulk: %w", err)
	}
	t.bulk = append(t.bulk, time.Since(began).Seconds())
	return nil
}

// peer starts the server on the node, and returns its port.
func (s *slurmSite) peer(ctx context.Context) (int, error) {
	dir, err := s.b.WorkingDir("peer.py")
	if err != nil {
		return 0, err
	}
	cmd, err := s.NodeCommand(ctx, "node1", "", s.b.Python, filepath.Join(dir, "peer.py"))
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("the server on the node: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(line))
}

// bare is one srun with a relay.
func (s *slurmSite) bare(ctx context.Context, job string, port int) (io.ReadWriteCloser, error) {
	dir, err := s.b.WorkingDir("relay.py")
	if err != nil {
		return nil, err
	}
	cmd := s.Command(ctx, "", "srun", "--unbuffered", "--overlap", "--quiet", "--jobid="+job, "--nodes=1", "--ntasks=1", "--mpi=none", s.b.Python, "-E", "-s", "-u", filepath.Join(dir, "relay.py"), strconv.Itoa(port))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	return &piped{out, in, cmd}, err
}

// piped is a command's standard output and input.
type piped struct {
	io.Reader
	in  io.Closer
	cmd *exec.Cmd
}

func (p *piped) Write(b []byte) (int, error) { return p.in.(io.Writer).Write(b) }

func (p *piped) Close() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

// besideController runs commands next to the testbed's controller.
type besideController struct{ *slurmSite }

func (c besideController) Command(ctx context.Context, argv ...string) *exec.Cmd {
	return c.slurmSite.Command(ctx, "", argv[0], argv[1:]...)
}

func (c besideController) String() string { return "the testbed" }
