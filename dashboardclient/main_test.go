package dashboardclient_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/test/raytest"
)

func TestMain(m *testing.M) { raytest.Main(m) }

// versions are all supported versions. Most tests run on the newest only, the compact suites on each.
var versions = []string{raytest.Ray260, raytest.Ray240, raytest.Ray29}

// limit bounds every test: on a loaded machine a job takes long, but not for ever.
const limit = 6 * time.Minute

// newest returns a client of the shared head of the newest version, and a context for the test.
func newest(t *testing.T) (*dashboardclient.Client, context.Context) {
	t.Helper()
	return shared(t, raytest.Ray260)
}

func shared(t *testing.T, version string) (*dashboardclient.Client, context.Context) {
	t.Helper()
	client := raytest.Shared(t, version).Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return client, ctx
}

// onEach runs a test on every supported version.
func onEach(t *testing.T, test func(t *testing.T, client *dashboardclient.Client, ctx context.Context)) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			client, ctx := shared(t, version)
			test(t, client, ctx)
		})
	}
}

// submit starts a shell command as a job.
func submit(t *testing.T, ctx context.Context, client *dashboardclient.Client, command string) string {
	t.Helper()
	id, err := client.SubmitJob(ctx, dashboardclient.SubmitRequest{Entrypoint: command})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func median(values []time.Duration) time.Duration {
	slices.Sort(values)
	return values[len(values)/2]
}
