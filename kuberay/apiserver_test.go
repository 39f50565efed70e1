package kuberay_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/pace"
)

// TestBusyAPIServer answers each request at first as an API server does that has too much to do (429 with Retry-After, by priority and
// fairness), the first change of a Job as one does whose object has changed meanwhile (409), and breaks off the first answer to each other change.
func TestBusyAPIServer(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	g := b.newAPIProxy(t)
	var mu sync.Mutex
	asked := map[string]int{}
	broken := map[string]bool{}
	busy, conflicts := 0, 0
	g.set(func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		mu.Lock()
		key := r.Method + " " + r.URL.Path
		asked[key]++
		n := asked[key]
		first := r.Header.Get("Upgrade") == "" && n == 1
		conflict := r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/jobs/patient") && n == 2
		breaks := !first && !conflict && writes(r) && !broken[key]
		switch {
		case first:
			busy++
		case conflict:
			conflicts++
		case breaks:
			broken[key] = true
		}
		mu.Unlock()
		switch {
		case first:
			refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests, please try again later")
		case conflict:
			refuse(w, http.StatusConflict, metav1.StatusReasonConflict, `Operation cannot be fulfilled on jobs.batch "patient": the object has been modified; please apply your changes to the latest version and try again`)
		case breaks:
			cutAnswer(w, r, pass)
		default:
			pass.ServeHTTP(w, r)
		}
	})
	l := g.launcher()
	b.nothingLeft(t, "patient")
	id, err := l.Launch(t.Context(), named("patient", "sleep 600"), launcher.Payload{})
	if err != nil {
		t.Fatalf("launch: %v", err)
	}
	if err := l.Terminate(t.Context(), id, launcher.End{Cause: "down", Message: "ended by the test"}); err != nil {
		t.Errorf("terminate: %v", err)
	}
	if r, err := l.Result(t.Context(), id); err != nil || r.Exit.Cause != "down" {
		t.Errorf("result: %v, %v", r, err)
	}
	if busy < 10 || conflicts != 1 || len(broken) < 5 {
		t.Errorf("%d requests were refused, %d conflicts; answers that broke off: %v", busy, conflicts, slices.Sorted(maps.Keys(broken)))
	}
}

// cutAnswer passes a request on and ends the connection within its answer.
func cutAnswer(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	answer := httptest.NewRecorder()
	pass.ServeHTTP(answer, r)
	maps.Copy(w.Header(), answer.Header())
	w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
	w.(http.Flusher).Flush() // the beginning is on its way
	panic(http.ErrAbortHandler)
}

// TestOverloadedAPIServer: if the API server is overloaded for long, the error names that as the cause.
func TestOverloadedAPIServer(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	g := b.newAPIProxy(t)
	g.set(func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if writes(r) {
			w.Header().Set("Retry-After", "0")
			refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests, please try again later")
			return
		}
		pass.ServeHTTP(w, r)
	})
	_, err := g.launcher().Launch(t.Context(), named("late", "echo never"), launcher.Payload{})
	if launcher.ExitCode(err) != runstate.CodeUnreachable || !strings.Contains(err.Error(), "too many requests") {
		t.Errorf("code %d: %v", launcher.ExitCode(err), err)
	}
	b.NothingLeft(t, b.namespace, nil)
}

// The tests of this file break what all clusters share, so they run alone.

// TestAPIServerRestarted takes the API server away while a run is queued, one runs and one ends. The client of the one that runs follows it without port-forward.
func TestAPIServerRestarted(t *testing.T) {
	b := newBed(t)
	greedy := named("queued", "echo never")
	greedy.Head.GPUs = 100
	stops := named("ending", stoppingDriver)
	grace := units.Duration(patience)
	stops.Job.Grace = &grace
	proxied := b.limited(t, reachingBy(t, proxyOnly))
	queued, runs, ends := b.begin(t, b.l, greedy), b.begin(t, proxied, named("runs", waitingDriver)), b.begin(t, b.l, stops)
	queued.until(t, "a reason to wait", func(st launcher.Status) bool { return st.Phase == runstate.Queued && st.Reason.Code != "" })
	runs.printed(t, "begun\n")
	ends.printed(t, "begun\n")
	ends.actions <- launcher.Stop
	ends.printed(t, "stopping\n")

	b.StopAPIServer(t)
	for _, r := range []*watchedRun{queued, runs, ends} {
		r.until(t, "word of the outage", func(st launcher.Status) bool { return st.Unreachable != "" })
	}
	b.StartAPIServer(t)

	b.release(t, runs.id)
	b.release(t, ends.id)
	queued.actions <- launcher.Stop
	runs.wantEnd(t, "succeeded", 0, "begun\ndone\n")
	ends.wantEnd(t, "interrupted", runstate.CodeInterrupted, "begun\nstopping\nsaved\n")
	queued.wantEnd(t, "interrupted", runstate.CodeInterrupted, "")
}
