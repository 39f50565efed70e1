package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/dashboardclient/pack"
)

// usage collects the resource use of one command's runs.
type usage struct{ wall, cpu, memory []float64 }

func (u *usage) add(d *Done) {
	u.wall, u.cpu, u.memory = append(u.wall, d.wall), append(u.cpu, d.cpu), append(u.memory, d.memory)
}

// measureSubmit runs a driver of one line with a working directory on a running cluster, and compares rayctl with the time of the cluster
// itself.
func measureSubmit(ctx context.Context, b *Bench) ([]Row, error) {
	client, err := b.cluster(ctx)
	if err != nil {
		return nil, err
	}
	var today, ours usage
	var server []float64
	err = b.Repeat(ctx, "submit", func(ctx context.Context) error {
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
	most := Median(server) + 0.2
	return []Row{
		Compare("one-line driver with a working dir on a running cluster, command start to exit", Seconds, today.wall, ours.wall, most,
			fmt.Sprintf("at most server time + 0.2 s: %s; server: %s", Seconds(most), Figures(server, Seconds))),
		Compare("processor time of that command", Seconds, today.cpu, ours.cpu, 0.08, ""),
		Compare("memory of that command", Megabytes, today.memory, ours.memory, 40e6, ""),
	}, nil
}

// serverTime is the cluster's time for the same driver, from the POST to the recorded end.
func (b *Bench) serverTime(ctx context.Context, client *dashboardclient.Client) (float64, error) {
	dir, err := b.WorkingDir("oneline.py")
	if err != nil {
		return 0, err
	}
	pkg, err := pack.WorkingDir(ctx, dir, pack.Options{CacheDir: b.Dir + "/packages"})
	if err != nil {
		return 0, err
	}
	if _, err := client.UploadPackage(ctx, pkg.URI, pkg.Path, nil); err != nil {
		return 0, err
	}
	start := time.Now()
	id, err := client.SubmitJob(ctx, dashboardclient.SubmitRequest{
		Entrypoint: b.Python + " oneline.py", RuntimeEnv: map[string]any{"working_dir": pkg.URI},
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
func measureJobs(ctx context.Context, b *Bench) ([]Row, error) {
	if _, err := b.cluster(ctx); err != nil {
		return nil, err
	}
	today, ours, err := b.commands(ctx, "jobs",
		invocation{b.Head.Env, b.ray(), []string{"job", "list", "--address", b.Head.URL}},
		invocation{b.onHead(), b.Rayctl, []string{"jobs", "--address", b.Head.URL}})
	if err != nil {
		return nil, err
	}
	return []Row{Compare("`rayctl jobs` on a running cluster (`ray job list`)", Seconds, today, ours, 0.05, "")}, nil
}

// measureVersion queries the version, the simplest command.
func measureVersion(ctx context.Context, b *Bench) ([]Row, error) {
	today, ours, err := b.commands(ctx, "version",
		invocation{b.Environment(), b.ray(), []string{"--version"}},
		invocation{b.Environment(), b.Rayctl, []string{"version"}})
	if err != nil {
		return nil, err
	}
	return []Row{Compare("`rayctl version` (`ray --version`)", Seconds, today, ours, 0.03, "")}, nil
}

// invocation is a command line.
type invocation struct {
	env  []string
	name string
	args []string
}

// commands returns the seconds of two commands.
func (b *Bench) commands(ctx context.Context, what string, today, ours invocation) (todays, oursTook []float64, err error) {
	var took [2][]float64
	var sides []func(context.Context) error
	for i, side := range []invocation{today, ours} {
		sides = append(sides, func(ctx context.Context) error {
			d, err := b.Command(ctx, side.env, side.name, side.args...)
			if err == nil {
				took[i] = append(took[i], d.wall)
			}
			return err
		})
	}
	err = b.Repeat(ctx, what, sides...)
	return took[0], took[1], err
}
