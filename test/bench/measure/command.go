package measure

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Done is the resource use and the output of a finished command.
type Done struct {
	wall, cpu float64 // seconds
	memory    float64 // bytes, maximum
	Output    recorder
}

// recorder keeps the data written to it with the times.
type recorder struct {
	Data   []byte
	writes []write
}

type write struct {
	at  time.Time
	end int // length of data at that time
}

func (r *recorder) Write(p []byte) (int, error) {
	r.Data = append(r.Data, p...)
	r.writes = append(r.writes, write{time.Now(), len(r.Data)})
	return len(p), nil
}

// lines calls each for every complete line with the time at which its end arrived.
func (r *recorder) lines(each func(line []byte, at time.Time)) {
	next, begin := 0, 0
	for begin < len(r.Data) {
		length := bytes.IndexByte(r.Data[begin:], '\n')
		if length < 0 {
			return
		}
		for r.writes[next].end <= begin+length {
			next++
		}
		each(r.Data[begin:begin+length], r.writes[next].at)
		begin += length + 1
	}
}

// Command runs a command to its end; failure is an error.
func (b *Bench) Command(ctx context.Context, env []string, name string, args ...string) (*Done, error) {
	d := new(Done)
	var stderr bytes.Buffer
	command := exec.CommandContext(ctx, name, args...)
	command.Env, command.Dir, command.Stdout, command.Stderr = env, b.Dir, &d.Output, &stderr
	start := time.Now()
	err := command.Run()
	d.wall = time.Since(start).Seconds()
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w: %s", filepath.Base(name), args, err, Tail(stderr.Bytes()))
	}
	state := command.ProcessState
	d.cpu = (state.UserTime() + state.SystemTime()).Seconds()
	d.memory = float64(state.SysUsage().(*syscall.Rusage).Maxrss)
	if runtime.GOOS == "linux" { // in bytes elsewhere
		d.memory *= 1024
	}
	return d, nil
}

// Tail is the end of a command's error output.
func Tail(text []byte) []byte {
	return bytes.TrimSpace(text[max(0, len(text)-500):])
}

// submitRay runs the driver with Ray's command line on the shared head.
func (b *Bench) submitRay(ctx context.Context, driver string) (*Done, error) {
	return b.submit(ctx, driver, b.Head.Env, b.ray(), "job", "submit")
}

// submitRayctl runs the driver with rayctl on the shared head.
func (b *Bench) submitRayctl(ctx context.Context, driver string) (*Done, error) {
	return b.submit(ctx, driver, b.onHead(), b.Rayctl, "submit")
}

func (b *Bench) submit(ctx context.Context, driver string, env []string, name string, verb ...string) (*Done, error) {
	dir, err := b.WorkingDir(driver)
	if err != nil {
		return nil, err
	}
	return b.Command(ctx, env, name, append(verb, "--address", b.Head.URL, "--working-dir", dir, "--", b.Python, driver)...)
}

// both submits one driver with both command lines alternately.
func (b *Bench) both(ctx context.Context, what, driver string, today, ours func(*Done) error) error {
	if _, err := b.cluster(ctx); err != nil {
		return err
	}
	return b.Repeat(ctx, what, func(ctx context.Context) error {
		d, err := b.submitRay(ctx, driver)
		if err != nil {
			return err
		}
		return today(d)
	}, func(ctx context.Context) error {
		d, err := b.submitRayctl(ctx, driver)
		if err != nil {
			return err
		}
		return ours(d)
	})
}
