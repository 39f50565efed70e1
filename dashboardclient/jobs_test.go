package dashboardclient_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/test/raytest"
)

func TestJobs(t *testing.T) {
	onEach(t, func(t *testing.T, client *dashboardclient.Client, ctx context.Context) {
		entrypoint := `echo "it's $((1+2)) «ü»"; exit 3`
		request := dashboardclient.SubmitRequest{
			Entrypoint: entrypoint, SubmissionID: "jobs-test", Nonce: "mine", Metadata: map[string]string{"team": "rl"},
			RuntimeEnv: map[string]any{"env_vars": map[string]string{"A": "b c"}},
		}
		for range 2 { // the second time it is recognised
			if id, err := client.SubmitJob(ctx, request); err != nil || id != "jobs-test" {
				t.Fatal(id, err)
			}
		}
		request.Nonce = "another's"
		if _, err := client.SubmitJob(ctx, request); !errors.Is(err, dashboardclient.ErrConflict) {
			t.Errorf("an id that is taken gives %v", err)
		}
		job, err := client.WaitJob(ctx, "jobs-test")
		if err != nil {
			t.Fatal(err)
		}
		if job.Status != dashboardclient.JobFailed || job.DriverExitCode == nil || *job.DriverExitCode != 3 {
			t.Errorf("%+v", job)
		}
		if job.Entrypoint != entrypoint || job.Metadata["team"] != "rl" || job.StartTime.IsZero() || job.EndTime.Before(job.StartTime) {
			t.Errorf("%+v", job)
		}
		jobs, err := client.ListJobs(ctx)
		if err != nil || !slices.ContainsFunc(jobs, func(j dashboardclient.Job) bool { return j.SubmissionID == "jobs-test" }) {
			t.Errorf("%v does not list the job (%v)", jobs, err)
		}
		if stopped, err := client.StopJob(ctx, "jobs-test"); err != nil || stopped {
			t.Errorf("stopping a job that has ended: %t, %v", stopped, err)
		}
		if err := client.DeleteJob(ctx, "jobs-test"); err != nil {
			t.Error(err)
		}
		if _, err := client.GetJob(ctx, "jobs-test"); !errors.Is(err, dashboardclient.ErrNotFound) {
			t.Errorf("a deleted job gives %v", err)
		}
	})
}

func TestStop(t *testing.T) {
	t.Parallel()
	client, ctx := newest(t)
	id := submit(t, ctx, client, "exec sleep 1000")
	if err := client.DeleteJob(ctx, id); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("deleting a job that runs gives %v", err)
	}
	if stopped, err := client.StopJob(ctx, id); err != nil || !stopped {
		t.Error(stopped, err)
	}
	if job, err := client.WaitJob(ctx, id); err != nil || job.Status != dashboardclient.JobStopped {
		t.Error(job, err)
	}
}

// TestSubmitRunsOnce loses answers in every possible way; the driver writes a line each time it runs.
func TestSubmitRunsOnce(t *testing.T) {
	head := raytest.Shared(t, raytest.Ray260)
	for name, fault := range map[string]raytest.Fault{
		"answer lost":       {LoseAnswer: true},
		"500 instead":       {Status: http.StatusInternalServerError},
		"502 instead":       {Status: http.StatusBadGateway},
		"never reached Ray": {Refuse: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			proxy := raytest.NewProxy(t, head)
			posts := 0
			proxy.Break(func(r *http.Request) raytest.Fault {
				if r.Method == http.MethodPost {
					if posts++; posts <= 2 {
						return fault
					}
				}
				return raytest.Fault{}
			})
			client := proxy.Client(t, head)
			runs := filepath.Join(t.TempDir(), "runs")
			id := submit(t, ctx, client, "echo run >> "+runs)
			if job, err := client.WaitJob(ctx, id); err != nil || job.Status != dashboardclient.JobSucceeded {
				t.Fatal(job, err)
			}
			if content, err := os.ReadFile(runs); err != nil || string(content) != "run\n" {
				t.Errorf("the driver left %q (%v)", content, err)
			}
		})
	}
}

func TestSubmitRefused(t *testing.T) {
	t.Parallel()
	client, ctx := newest(t)
	for name, request := range map[string]dashboardclient.SubmitRequest{
		"no entrypoint":       {Entrypoint: " "},
		"id no URL can hold":  {Entrypoint: "true", SubmissionID: "../x"},
		"runtime_env of list": {Entrypoint: "true", RuntimeEnv: map[string]any{"env_vars": []string{"A"}}, SubmissionID: "refused"},
	} {
		_, err := client.SubmitJob(ctx, request)
		if name == "runtime_env of list" && err == nil { // Ray accepts it, and the job fails
			if job, err := client.WaitJob(ctx, "refused"); err != nil || job.Status != dashboardclient.JobFailed {
				t.Errorf("%s: %+v, %v", name, job, err)
			}
			continue
		}
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLabelSelector: a driver is placed by the labels of nodes, or the version is reported as too old for this.
func TestLabelSelector(t *testing.T) {
	onEach(t, func(t *testing.T, client *dashboardclient.Client, ctx context.Context) {
		id, err := client.SubmitJob(ctx, dashboardclient.SubmitRequest{
			Entrypoint: "echo placed", EntrypointLabels: map[string]string{"ray.io/node-id": "!in(none)"},
		})
		if !strings.HasSuffix(t.Name(), raytest.Ray260) {
			var lacking *dashboardclient.UnsupportedError
			if !errors.Is(err, dashboardclient.ErrUnsupported) || !errors.As(err, &lacking) || !strings.HasSuffix(t.Name(), lacking.RayVersion) ||
				!strings.Contains(err.Error(), "entrypoint_label_selector") {
				t.Errorf("Ray without label selectors gives %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if job, err := client.WaitJob(ctx, id); err != nil || job.Status != dashboardclient.JobSucceeded {
			t.Errorf("%+v, %v", job, err)
		}
	})
}

// TestJobWithoutDriver follows a job that fails before it has a driver.
func TestJobWithoutDriver(t *testing.T) {
	t.Parallel()
	client, ctx := newest(t)
	id, err := client.SubmitJob(ctx, dashboardclient.SubmitRequest{
		Entrypoint: "true", RuntimeEnv: map[string]any{"working_dir": "gcs://_ray_pkg_absent.zip"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	job, err := client.FollowJob(id, dashboardclient.FollowOptions{StripHeader: true}).Run(ctx, &out)
	if err != nil || job.Status != dashboardclient.JobFailed || job.Message == "" {
		t.Errorf("%+v, %v", job, err)
	}
	if !strings.Contains(out.String(), "_ray_pkg_absent") { // Ray writes its reason into the driver's log
		t.Errorf("the log does not say why there was no driver: %q", out.String())
	}
}

// TestDeletedStaysDeleted deletes jobs at their end, when Ray still looks after them.
func TestDeletedStaysDeleted(t *testing.T) {
	t.Parallel()
	client, ctx := newest(t)
	var group errgroup.Group
	ids := make([]string, 6)
	for i := range ids {
		ids[i] = submit(t, ctx, client, "true")
		group.Go(func() error {
			if _, err := client.WaitJob(ctx, ids[i]); err != nil {
				return err
			}
			return client.DeleteJob(ctx, ids[i])
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if job, err := client.GetJob(ctx, id); !errors.Is(err, dashboardclient.ErrNotFound) {
			t.Errorf("job %s is in Ray's list again: %+v, %v", id, job, err)
		}
	}
}
