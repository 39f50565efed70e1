package dashboardclient_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/rayctl/rayctl/dashboardclient"
)

// TestTailMemory: the last lines of a job's log may be one of 400 MB: it goes through the client in pieces. A stand-in for the dashboard writes it, because a driver
// that prints it would keep a machine busy for minutes; as Ray does, it counts the lines from the end, whatever their length.
func TestTailMemory(t *testing.T) {
	const (
		size = 400 << 20
		ray  = "2026-11-30 10:00:00,000\tINFO job_manager.py:531 -- Runtime env is setting up.\nRunning entrypoint for job long: python a.py\n"
	)
	piece := bytes.Repeat([]byte("x"), 1<<20)
	mux := http.NewServeMux()
	log := func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, ray)
		for left := size; left > 0 && err == nil; left -= len(piece) {
			_, err = w.Write(piece)
		}
	}
	mux.HandleFunc("GET /api/v0/logs/file", log)
	mux.HandleFunc("GET /api/v0/logs/stream", log)
	mux.HandleFunc("GET /api/version", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"version": "4", "ray_version": "2.60.0"}`)
	})
	mux.HandleFunc("GET /api/jobs/long", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "SUBMISSION", "submission_id": "long", "status": "SUCCEEDED", "entrypoint": "python a.py", "driver_node_id": "n1"})
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	client, err := dashboardclient.New(dashboardclient.Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for name, tail := range map[string]func(w io.Writer) error{
		"read": func(w io.Writer) error {
			return client.JobLog(t.Context(), "long", w, dashboardclient.LogOptions{Tail: 3, StripHeader: true})
		},
		"read as it is": func(w io.Writer) error {
			return client.JobLog(t.Context(), "long", w, dashboardclient.LogOptions{Tail: 3})
		},
		"followed": func(w io.Writer) error {
			_, err := client.FollowJob("long", dashboardclient.FollowOptions{Tail: 3, StripHeader: true}).Run(t.Context(), w)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := size
			if name == "read as it is" {
				want += len(ray)
			}
			var shown lengthOf
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := tail(&shown)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; err != nil || shown.bytes != want || shown.others > 0 && name != "read as it is" || used > 64<<20 {
				t.Errorf("%d bytes of %d were shown, %d of them others, with %d MiB of memory; %v", shown.bytes, want, shown.others, used>>20, err)
			}
		})
	}
}

// lengthOf counts what is written to it, and of that what is not the line.
type lengthOf struct{ bytes, others int }

func (l *lengthOf) Write(p []byte) (int, error) {
	l.bytes += len(p)
	l.others += len(p) - bytes.Count(p, []byte("x"))
	return len(p), nil
}
