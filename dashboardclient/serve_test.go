package dashboardclient_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/dashboardclient/pack"
)

const serveApp = `
from ray import serve

@serve.deployment(ray_actor_options={"num_cpus": 0})
class Good:
    def __call__(self): return "ok"

@serve.deployment(ray_actor_options={"num_cpus": 0})
class Bad:
    def __init__(self): raise ValueError("the model file is missing")

good, bad = Good.bind(), Bad.bind()
`

func TestServe(t *testing.T) {
	onEach(t, func(t *testing.T, client *dashboardclient.Client, ctx context.Context) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "shop.py"), []byte(serveApp), 0o644); err != nil {
			t.Fatal(err)
		}
		pkg, err := pack.WorkingDir(ctx, dir, pack.Options{CacheDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.UploadPackage(ctx, pkg.URI, pkg.Path, nil); err != nil {
			t.Fatal(err)
		}
		port := freePort(t) // several heads run at once
		apply := func(app string) error {
			return client.ServeApply(ctx, map[string]any{
				"proxy_location": "HeadOnly", // 2.9.3 accepts "Disabled", but then cannot report its state
				"http_options":   map[string]any{"host": "127.0.0.1", "port": port},
				"applications": []any{map[string]any{
					"name": app, "import_path": "shop:" + app, "route_prefix": "/" + app, "runtime_env": map[string]any{"working_dir": pkg.URI},
				}},
			})
		}
		if err := apply("good"); err != nil {
			t.Fatal(err)
		}
		if err := client.ServeWait(ctx, []string{"good"}, nil); err != nil {
			t.Fatal(err)
		}
		status, err := client.GetServe(ctx)
		if err != nil || status.Applications["good"].Deployments["Good"].Status != "HEALTHY" {
			t.Errorf("%+v, %v", status, err)
		}
		if err := apply("bad"); err != nil {
			t.Fatal(err)
		}
		err = client.ServeWait(ctx, []string{"bad"}, nil)
		if !errors.Is(err, dashboardclient.ErrServeFailed) || !strings.Contains(err.Error(), "Bad") ||
			!strings.Contains(err.Error(), "the model file is missing") || strings.Contains(err.Error(), "\n") {
			t.Errorf("a constructor that fails gives %v", err)
		}
		if err := client.ServeDelete(ctx); err != nil {
			t.Fatal(err)
		}
		if err := client.ServeWaitGone(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
