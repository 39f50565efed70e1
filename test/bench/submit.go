package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/dashboardclient/pack"
)

// usage collects the resource use of one command's runs.
type usage struct{ wall, cpu, memory []float64 }

func (u *usage) add(d *done) {
	u.wall, u.cpu, u.memory = append(u.wall, d.wall), append(u.cpu, d.cpu), append(u.memory, d.memory)
}

// measureSubmit runs a driver of one line with a working directory on a running cluster, and compares rayctl with the time of the cluster
// itself.
func measureSubmit(ctx context.Context, b *bench) ([]row, error) {
	client, err := b.cluster(ctx)
	if err != nil {
		return nil, err
	}
	var today, ours usage
	var server []float64
	err = b.repeat(ctx, "submit", func(ctx context.Context) error {
		d, err := b.submitRay(ctx, "oneline.py")
		if err == nil {
			today.add(d)
		}
		return err
	}, func(ctx context.Context) error {
		d, err := b.submitRayctl(ctx, "oneline.py")
		if err == nil {
			ours.add(d)
		}
		return err
	}, func(ctx context.Context) error {
		took, err := b.serverTime(ctx, client)
		server = append(server, took)
		return err
	})
	if err != nil {
		return nil, err
	}
	most := median(server) + 0.2
	return []row{
		compare("one-line driver with a working dir on a running cluster, command start to exit", seconds, today.wall, ours.wall, most,
			fmt.Sprintf("at most server time + 0.2 s: %s; server: %s", seconds(most), figures(server, seconds))),
		compare("processor time of that command", seconds, today.cpu, ours.cpu, 0.08, ""),
		compare("memory of that command", megabytes, today.memory, ours.memory, 40e6, ""),
	}, nil
}

// serverTime is the cluster's time for the same driver, from the POST to the recorded end.
func (b *bench) serverTime(ctx context.Context, client *dashboardclient.Client) (float64, error) {
	dir, err := b.workingDir("oneline.py")
	if err != nil {
		return 0, err
	}
	pkg, err := pack.WorkingDir(ctx, dir, pack.Options{CacheDir: b.dir + "/packages"})
	if err != nil {
		return 0, err
	}
	if _, err := client.UploadPackage(ctx, pkg.URI, pkg.Path, nil); err != nil {
		return 0, err
	}
	start := time.Now()
	id, err := client.SubmitJob(ctx, dashboardclient.SubmitRequest{
		Entrypoint: b.python + " oneline.py", RuntimeEnv: map[string]any{"working_dir": pkg.URI},
	})
	if err != nil {
		return 0, err
	}
	job, err := client.WaitJob(ctx, id)
	if err != nil {
		return 0, err
	}
	if job.Status != dashboardclient.JobSucceeded {
		return 0, fmt.Errorf("job %s: %s: %s", id, job.Status, job.Message)
	}
	return job.EndTime.Sub(start).Seconds(), nil
}

// measureJobs lists the jobs of a running cluster.
func measureJobs(ctx context.Context, b *bench) ([]row, error) {
	if _, err := b.cluster(ctx); err != nil {
		return nil, err
	}
	today, ours, err := b.commands(ctx, "jobs",
		invocation{b.head.Env, b.ray(), []string{"job", "list", "--address", b.head.URL}},
		invocation{b.onHead(), b.rayctl, []string{"jobs", "--address", b.head.URL}})
	if err != nil {
		return nil, err
	}
	return []row{compare("`rayctl jobs` on a running cluster (`ray job list`)", seconds, today, ours, 0.05, "")}, nil
}

// measureVersion queries the version, the simplest command.
func measureVersion(ctx context.Context, b *bench) ([]row, error) {
	today, ours, err := b.commands(ctx, "version",
		invocation{b.environment(), b.ray(), []string{"--version"}},
		invocation{b.environment(), b.rayctl, []string{"version"}})
	if err != nil {
		return nil, err
	}
	return []row{compare("`rayctl version` (`ray --version`)", seconds, today, ours, 0.03, "")}, nil
}

// invocation is a command line.
type invocation struct {
	env  []string
	name string
	args []string
}

// commands returns the seconds of two commands.
func (b *bench) commands(ctx context.Context, what string, today, ours invocation) (todays, oursTook []float64, err error) {
	var took [2][]float64
	var sides []func(context.Context) error
	for i, side := range []invocation{today, ours} {
		sides = append(sides, func(ctx context.Context) error {
			d, err := b.command(ctx, side.env, side.name, side.args...)
			if err == nil {
				took[i] = append(took[i], d.wall)
			}
			return err
		})
	}
	err = b.repeat(ctx, what, sides...)
	return took[0], took[1], err
}
