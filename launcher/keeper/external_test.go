package keeper_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/raytest"
)

// An external cluster, as on KubeRay: the package arrives through the API and the log over HTTP, and a second keeper takes over
// when the first is killed. The cluster itself stays.
func TestExternal(t *testing.T) {
	t.Parallel()
	head := raytest.Shared(t, raytest.Ray260)
	flag := filepath.Join(t.TempDir(), "flag $(x)")
	shape := func(o *keeper.Orders) {
		o.Start = keeper.Start{Mode: keeper.StartExternal, Dashboard: head.URL, GCS: head.GCSAddress}
		o.WatchStdin = false
		o.Groups = []keeper.Group{{Name: "head", Count: 1}}
		o.Job.SubmissionPrefix = o.Name
		o.Job.Env = map[string]string{"FLAG": flag}
		o.Signals = map[string]string{"TERM": "detach"}
	}
	r := newRig(t, `python packaged.py "$FLAG"`, shape)
	r.token = head.Token
	r.start(nil)
	s := r.state("the head answers", ready)
	ctx, c := context.Background(), r.client()
	archive := zipped(t, "packaged.py", packaged)
	r.must(c.PutPackage(ctx, "package-x.zip", int64(len(archive)), bytes.NewReader(archive)))
	uri := "gcs://_ray_pkg_" + strings.TrimPrefix(s.Name, "t-") + ".zip"
	_, err := c.Commit(ctx, keeper.Commit{
		Packages:   []keeper.Package{{URI: uri, File: "package-x.zip"}},
		RuntimeEnv: json.RawMessage(`{"working_dir": "` + uri + `"}`),
	})
	r.must(err)
	r.eventually("the log is streamed", func() bool { return strings.HasSuffix(r.log(), "waiting\n") })
	// Eviction: the next keeper starts in an empty directory.
	r.must(r.cmd.Process.Signal(syscall.SIGTERM))
	r.wait()
	if _, err := r.dir.Result(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a keeper that leaves wrote a result: %v", err)
	}
	next := newRig(t, `python packaged.py "$FLAG"`, shape)
	next.token, next.orders.Name, next.orders.Job.SubmissionPrefix = head.Token, s.Name, s.Name
	next.start(nil)
	next.state("the job is found again", running)
	r.must(os.WriteFile(flag, nil, 0o600))
	end := next.result()
	if end.Exit.Cause != runstate.CauseDriverFailed || end.Exit.Code != 5 || end.Job.SubmissionID != s.Name+"-1" {
		t.Errorf("exit: %+v of %+v", end.Exit, end.Job)
	}
	log := next.log()
	want := "package " + s.Name + "\n" + strings.Repeat("y", 3_000_000) + "\xff\r\nwaiting\nlast line\n"
	if !strings.HasSuffix(log, want) || end.Log.Bytes != int64(len(log)) || len(end.Log.Missing) != 0 {
		t.Errorf("log of %d bytes: %+v, %.300q", len(log), end.Log, log)
	}
	if _, err := head.Client(t).Version(ctx); err != nil {
		t.Errorf("the cluster of somebody else has ended: %v", err)
	}
}

func zipped(t *testing.T, name, content string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := zip.NewWriter(&buffer)
	f, err := w.Create(name)
	if err == nil {
		_, err = f.Write([]byte(content))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

const packaged = `
import os, sys, time
print("package", os.environ["RAYCTL_RUN"], flush=True)
sys.stdout.buffer.write(b"y" * 3_000_000 + b"\xff\r\n")
print("waiting", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
print("last line", flush=True)
sys.exit(5)
`

// The state API returns a log in a second form before Ray 2.46 and in a third before 2.33. The copy has only the driver's bytes, live and at the end.
func TestExternalOldRay(t *testing.T) {
	t.Parallel()
	for _, version := range []string{raytest.Ray240, raytest.Ray29} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			head := raytest.Shared(t, version)
			script := filepath.Join(t.TempDir(), "many.py")
			flag := filepath.Join(t.TempDir(), "flag")
			r := newRig(t, "exec python "+script+" "+flag, func(o *keeper.Orders) {
				o.Start = keeper.Start{Mode: keeper.StartExternal, Dashboard: head.URL, GCS: head.GCSAddress}
				o.WatchStdin = false
				o.Groups = []keeper.Group{{Name: "head", Count: 1}}
				o.Job.SubmissionPrefix = o.Name
				o.Ray.Version = version
			})
			// More than three blocks of 64 KiB with bytes that no text has, a line like Ray's failure message, and digits as Ray put them before blocks.
			r.must(os.WriteFile(script, []byte(`import os, sys, time
sys.stdout.buffer.write(b"\x01" + b"1\n" * 50000 + b"[get_logs] Fetch log error: mine\n" + bytes(range(256)) * 500 + b"waiting\n")
sys.stdout.flush()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
print("last [get_logs] Fetch log", flush=True)
`), 0o600))
			want := "\x01" + strings.Repeat("1\n", 50000) + "[get_logs] Fetch log error: mine\n"
			for range 500 {
				for b := range 256 {
					want += string([]byte{byte(b)})
				}
			}
			want += "waiting\n"
			r.token = head.Token
			r.start(nil)
			r.state("the head answers", ready)
			_, err := r.client().Commit(context.Background(), keeper.Commit{})
			r.must(err)
			if version == raytest.Ray240 { // its log streams can be read
				r.eventually("the log is streamed", func() bool { return strings.HasSuffix(r.log(), want) })
			}
			r.state("the driver runs", running)
			r.must(os.WriteFile(flag, nil, 0o600))
			end := r.result()
			if end.Exit.Cause != runstate.CauseSucceeded {
				t.Errorf("exit: %+v of %+v", end.Exit, end.Job)
			}
			log := r.log()
			want += "last [get_logs] Fetch log\n"
			if !strings.HasSuffix(log, want) || end.Log.Bytes != int64(len(log)) || len(end.Log.Missing) != 0 {
				t.Errorf("log of %d bytes, want %d after Ray's own: %+v", len(log), len(want), end.Log)
			}
			if own := strings.TrimSuffix(log, want); len(own) > 1000 || strings.ContainsAny(own[:min(1, len(own))], "\x01\x00") {
				t.Errorf("before the driver's output: %.300q", own)
			}
		})
	}
}
