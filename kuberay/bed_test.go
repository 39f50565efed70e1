package kuberay_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	kyaml "sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/kubetest"
	machine "github.com/rayctl/rayctl/test/kubetest/bed"
	"github.com/rayctl/rayctl/test/kubetest/build"
	"github.com/rayctl/rayctl/test/once"
	"github.com/rayctl/rayctl/test/pace"
)

// TestMain: the setting is a kubeconfig whose context names the namespace.
func TestMain(m *testing.M) {
	pace.AtOnce("5") // namespaces side by side: with more, pods wait long for the node's memory
	conformance.Main(m, func(kubeconfig string) launcher.Launcher {
		return kuberay.New(kuberay.Config{Kubeconfig: kubeconfig})
	})
}

// bed is a namespace of a real Kubernetes with KubeRay, with what tests ask it and do to it.
type bed struct {
	*kubetest.Cluster
	namespace, kubeconfig string
	l                     *kuberay.Launcher
}

// options are those of nearly all tests: to change them costs seconds. The GPUs are the gang proof's; nothing is behind them.
func options() kubetest.Options { return kubetest.Options{GPUs: 8} }

// newBed is a namespace of its own.
func newBed(t *testing.T) bed { return bedWith(t, options()) }

func bedWith(t *testing.T, o kubetest.Options) bed {
	t.Helper()
	return bed{Cluster: kubetest.Start(t, o)}.another(t)
}

// another is one more namespace beside the bed's, for the same test.
func (b bed) another(t *testing.T) bed {
	t.Helper()
	b.namespace = b.Namespace(t)
	b.kubeconfig = b.KubeconfigFor(t, b.namespace)
	b.l = kuberay.New(kuberay.Config{Kubeconfig: b.kubeconfig})
	return b
}

func (b bed) list(t *testing.T, r schema.GroupVersionResource, id launcher.ID) map[string][]byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	objects, err := b.Dynamic.Resource(r).Namespace(b.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, o := range objects.Items {
		if o.GetLabels()["rayctl.io/name"] != string(id) && o.GetLabels()["ray.io/cluster"] != string(id) && !strings.HasPrefix(o.GetName(), string(id)) {
			continue
		}
		text, err := kyaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		out[r.Resource+"/"+o.GetName()] = text
	}
	return out
}

func (b bed) allocated(t *testing.T, id launcher.ID) (left []string) {
	for _, r := range []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("services"),
		batchv1.SchemeGroupVersion.WithResource("jobs"), kubetest.RayClusters, {Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"},
	} {
		for name := range b.list(t, r, id) {
			if !strings.HasPrefix(name, "jobs/"+string(id)+"-record") && !b.finished(t, name) {
				left = append(left, name)
			}
		}
	}
	return left
}

// left is what is allocated to a cluster that has ended. KubeRay, when its view of the RayCluster is behind that of the pods, makes the head's
// Service and pod once more while the RayCluster goes; Kubernetes collects them then, so they are waited for.
func (b bed) left(t *testing.T, id launcher.ID) (left []string) {
	for range 100 {
		left = b.allocated(t, id)
		if len(left) == 0 || slices.ContainsFunc(left, func(name string) bool { return !b.madeAgain(t, id, name) }) {
			break
		}
		time.Sleep(300 * time.Millisecond)
	}
	return left
}

// madeAgain reports whether KubeRay made a Service or a pod (another one) after the end of its cluster.
func (b bed) madeAgain(t *testing.T, id launcher.ID, name string) bool {
	if strings.HasPrefix(name, "services/") {
		return true
	}
	pod, isPod := strings.CutPrefix(name, "pods/")
	if !isPod {
		return false
	}
	p, err := b.Core.CoreV1().Pods(b.namespace).Get(context.Background(), pod, metav1.GetOptions{})
	if err != nil {
		return apierrors.IsNotFound(err) // just now
	}
	r, err := b.l.Result(context.Background(), id)
	return err == nil && p.Labels["ray.io/cluster"] != "" && !p.CreationTimestamp.Time.Before(r.Since.Truncate(time.Second))
}

// finished reports whether a pod has ended; of a record what is its own, see TestSidecars. The record's pod stays as long as the record.
func (b bed) finished(t *testing.T, name string) bool {
	pod, isPod := strings.CutPrefix(name, "pods/")
	if !isPod {
		return false
	}
	p, err := b.Core.CoreV1().Pods(b.namespace).Get(context.Background(), pod, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	own := slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == "driver" && s.State.Terminated != nil })
	return p.Labels["rayctl.io/role"] == "record" && (p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || own)
}

func (b bed) killKeeper(t *testing.T, id launcher.ID) {
	t.Helper()
	b.keeperProcess(t, id)
	b.DeletePods(t, b.namespace, "rayctl.io/role=keeper,rayctl.io/name="+string(id), 0)
}

func (b bed) killKeeperProcess(t *testing.T, id launcher.ID) {
	t.Helper()
	if _, pid := b.keeperProcess(t, id); syscall.Kill(pid, syscall.SIGKILL) != nil {
		t.Errorf("the keeper %d cannot be killed", pid)
	}
}

func (b bed) hold(*testing.T) (string, func(*testing.T, launcher.ID)) {
	return "until [ -e /tmp/go ]; do sleep 0.2; done", func(t *testing.T, id launcher.ID) {
		t.Helper()
		kubetest.Await(t, "the head's container, to release it", func(ctx context.Context) error {
			code, err := b.l.Exec(ctx, id, launcher.ExecRequest{Command: []string{"touch", "/tmp/go"}, Stdout: io.Discard, Stderr: io.Discard})
			if err == nil && code != 0 {
				err = fmt.Errorf("code %d", code)
			}
			return err
		})
	}
}

// freezeDashboard stops the process that serves HTTP; the head's other processes go on. Pods are processes of this machine.
func (b bed) freezeDashboard(t *testing.T, id launcher.ID) func() {
	t.Helper()
	pods, err := b.Core.CoreV1().Pods(b.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "ray.io/node-type=head,ray.io/cluster=" + string(id)})
	if err != nil || len(pods.Items) != 1 {
		t.Errorf("the head's pod: %d, %v", len(pods.Items), err)
		return func() {}
	}
	pid := processOf(string(pods.Items[0].UID), "dashboard/dashboard.py\x00")
	signal := func(number syscall.Signal) {
		if pid == 0 {
			t.Error("the head's pod has no dashboard")
		} else if err := syscall.Kill(pid, number); err != nil {
			t.Errorf("signal %d to %d: %v", number, pid, err)
		}
	}
	signal(syscall.SIGSTOP)
	return func() { signal(syscall.SIGCONT) }
}

// nameServiceAway concerns all clusters of the tests: none of them ends by it.
func (b bed) nameServiceAway(t *testing.T) func() {
	t.Helper()
	b.StopDNS(t)
	return func() { b.StartDNS(t) }
}

func (b bed) killHead(t *testing.T, id launcher.ID) {
	t.Helper()
	var out bytes.Buffer
	if code, err := b.l.Exec(t.Context(), id, launcher.ExecRequest{Command: []string{"pkill", "-9", "gcs_server"}, Stdout: &out, Stderr: &out}); err != nil || code != 0 {
		t.Errorf("kill the head's GCS: code %d, %v, %s", code, err, out.String())
	}
}

func (b bed) surfaces(t *testing.T, id launcher.ID) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, r := range []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithResource("services"), corev1.SchemeGroupVersion.WithResource("events"),
		corev1.SchemeGroupVersion.WithResource("configmaps"), batchv1.SchemeGroupVersion.WithResource("jobs"), kubetest.RayClusters,
		{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"},
	} {
		for name, text := range b.list(t, r, id) {
			out[name] = text
		}
	}
	for name := range out {
		if pod, ok := strings.CutPrefix(name, "pods/"); ok {
			out["log of "+pod] = b.log(pod)
		}
	}
	return out
}

func (b bed) log(pod string) []byte {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := b.Core.CoreV1().Pods(b.namespace).GetLogs(pod, &corev1.PodLogOptions{TailLines: ptr.To(int64(200))}).Stream(ctx)
	if err != nil {
		return []byte(err.Error())
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		return []byte(err.Error())
	}
	return text
}

func (b bed) story(t *testing.T, id launcher.ID) string {
	var s strings.Builder
	for name, text := range b.surfaces(t, id) {
		if strings.HasPrefix(name, "log of ") || strings.HasPrefix(name, "jobs/") || strings.HasPrefix(name, "events/") {
			fmt.Fprintf(&s, "--- %s\n%s\n", name, text)
		}
	}
	return s.String()
}

// waitingDriver goes on when release is called, so that a test breaks things while it surely runs.
const waitingDriver = "echo begun; until [ -e /tmp/go ]; do sleep 0.2; done; echo done"

// stoppingDriver needs until release to save its work after SIGTERM.
const stoppingDriver = `exec python -c '
import os, signal, sys, time
def stop(*_):
    print("stopping", flush=True)
    while not os.path.exists("/tmp/go"):
        time.sleep(0.2)
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("begun", flush=True)
while True:
    time.sleep(600)
'`

// named is a small spec with a name and a driver.
func named(name, entrypoint string) *spec.ClusterSpec {
	s := smallSpec()
	s.Name, s.Job.Entrypoint = name, entrypoint
	return s
}

// watchedRun is a launcher.Run whose statuses and output a test waits for.
type watchedRun struct {
	id      launcher.ID
	actions chan launcher.Action
	done    chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	out     bytes.Buffer
	status  launcher.Status
	outcome *launcher.Outcome
	err     error
}

// begin takes a spec through launcher.Run in the background. At the test's end the cluster has ended, however that went.
func (b bed) begin(t *testing.T, l launcher.Launcher, s *spec.ClusterSpec) *watchedRun {
	t.Helper()
	return b.beginWith(t, l, s, launcher.Payload{})
}

func (b bed) beginWith(t *testing.T, l launcher.Launcher, s *spec.ClusterSpec, pay launcher.Payload) *watchedRun {
	t.Helper()
	r := &watchedRun{id: launcher.ID(s.Name), actions: make(chan launcher.Action, 1), done: make(chan struct{}), changed: make(chan struct{})}
	b.nothingLeft(t, r.id)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	go func() {
		oc, err := launcher.Run(ctx, l, s, pay, launcher.RunOptions{Stdout: r, Actions: r.actions, OnStatus: func(st launcher.Status) {
			r.change(func() { r.status = st })
		}})
		r.change(func() { r.outcome, r.err = oc, err })
		close(r.done)
	}()
	return r
}

// nothingLeft ends a cluster when the test is over and checks on Kubernetes that nothing of it is left. For a failed test it logs what happened.
func (b bed) nothingLeft(t *testing.T, id launcher.ID) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(b.story(t, id))
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := b.l.Terminate(ctx, id, launcher.End{Cause: "down", Now: true}); err != nil {
			t.Errorf("terminate %s: %v", id, err)
		}
		if left := b.left(t, id); len(left) > 0 {
			t.Errorf("left of %s: %v\n%s", id, left, b.story(t, id))
		}
	})
}

// change runs do under the lock, wakes all waiting readers, and returns the channel that is closed at the next change.
func (r *watchedRun) change(do func()) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	close(r.changed)
	r.changed = make(chan struct{})
	return r.changed
}

// Write takes the driver's output.
func (r *watchedRun) Write(p []byte) (int, error) {
	r.change(func() { r.out.Write(p) })
	return len(p), nil
}

// until waits until the client's last status fulfils the condition.
func (r *watchedRun) until(t *testing.T, what string, cond func(st launcher.Status) bool) {
	t.Helper()
	r.await(t, what, func() bool { return cond(r.status) })
}

// printed waits until the driver's output has the text.
func (r *watchedRun) printed(t *testing.T, text string) {
	t.Helper()
	r.await(t, "output "+text, func() bool { return strings.Contains(r.out.String(), text) })
}

func (r *watchedRun) await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for {
		r.mu.Lock()
		ok, changed := cond(), r.changed
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
			continue
		case <-r.done:
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if !cond() {
			t.Fatalf("%s ended before there was %s: %v; last seen: %+v; output %q", r.id, what, r.err, r.status, r.out.String())
		}
		return
	}
}

// ended waits for the end.
func (r *watchedRun) ended(t *testing.T) (runstate.Exit, string) {
	t.Helper()
	<-r.done
	if r.err != nil {
		t.Fatalf("run of %s: %v; output %q", r.id, r.err, r.out.String())
	}
	return r.outcome.Receipt.Exit, r.out.String()
}

// wantEnd checks how it ended.
func (r *watchedRun) wantEnd(t *testing.T, cause string, code int, output string) runstate.Exit {
	t.Helper()
	e, out := r.ended(t)
	if e.Cause != cause || e.Code != code || code != 0 && e.Message == "" {
		t.Errorf("%s: exit %+v, want %s, %d", r.id, e, cause, code)
	}
	if out != output {
		t.Errorf("%s: output %q, want %q", r.id, out, output)
	}
	return e
}

// release lets the driver go on.
func (b bed) release(t *testing.T, id launcher.ID) {
	t.Helper()
	var out bytes.Buffer
	code, err := b.l.Exec(t.Context(), id, launcher.ExecRequest{Command: []string{"touch", "/tmp/go"}, Stdout: &out, Stderr: &out})
	if err != nil || code != 0 {
		t.Fatalf("release the driver of %s: code %d, %v, %s", id, code, err, out.String())
	}
}

func (r *watchedRun) printedSoFar() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.String()
}

// user runs rayctl as a person does.
type user struct {
	rayctl string
	env    []string
}

// binary builds rayctl once for all tests, in the testbed's cache, which pods see. Who uses the testbed has it alone.
var binary = sync.OnceValues(func() (string, error) {
	cache, err := build.CacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "under-test", "rayctl")
	return path, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), once.Program(context.Background(), once.Rayctl, path))
})

// newUser has an environment of its own, with only the kubeconfig of this machine.
func newUser(t *testing.T, kubeconfig string) *user {
	t.Helper()
	dir := t.TempDir()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	u := &user{rayctl: path, env: []string{"KUBECONFIG=" + kubeconfig}}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "RAY") && !strings.HasPrefix(kv, "KUBECONFIG=") && !strings.HasPrefix(kv, "CI=") {
			u.env = append(u.env, kv)
		}
	}
	for _, name := range []string{"XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"} {
		u.env = append(u.env, name+"="+filepath.Join(dir, "xdg"))
	}
	return u
}

// command is a command line of theirs, in an empty directory.
func (u *user) command(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(ctx, u.rayctl, args...)
	c.Env, c.Dir = u.env, t.TempDir()
	return c
}

// result is the result of a command.
type result struct {
	out, notes string
	code       int
}

// does runs a command to its end.
func (u *user) does(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	c := u.command(ctx, t, args...)
	var out, notes bytes.Buffer
	c.Stdout, c.Stderr = &out, &notes
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return result{out.String(), notes.String(), c.ProcessState.ExitCode()}
}

// succeeds is does for a command that must end with 0 and print this.
func (u *user) succeeds(t *testing.T, want string, args ...string) result {
	t.Helper()
	a := u.does(t, args...)
	if a.code != 0 || !strings.Contains(a.out, want) {
		t.Fatalf("rayctl %q: code %d, want %q\nstdout: %s\nstderr: %s", args, a.code, want, a.out, a.notes)
	}
	return a
}

// example is the path of one.
func example(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// onlyRecords: all else is gone.
func onlyRecords(object string) bool { return strings.Contains(object, "-record") }

// apiProxy passes requests on to the real API server, or answers in its place what cannot be provoked on the real one.
type apiProxy struct {
	kubeconfig string
	server     *httptest.Server

	mu   sync.Mutex
	rule rule
}

// rule answers a request, or passes it on.
type rule func(w http.ResponseWriter, r *http.Request, pass http.Handler)

// newAPIProxy lets everything through at first.
func (b bed) newAPIProxy(t *testing.T) *apiProxy {
	t.Helper()
	tls, err := rest.TLSConfigFor(b.REST)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(b.REST.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{TLSClientConfig: tls}, // HTTP/1.1: it must carry upgrades
	}
	g := &apiProxy{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), rule: passOn}
	g.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		rule := g.rule
		g.mu.Unlock()
		if r.Header.Get("Upgrade") == "" { // a body that is still being read when the answer is there makes ReverseProxy cut the answer: golang/go#40747
			body, err := io.ReadAll(r.Body)
			if err != nil {
				cutConnection(w)
				return
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		rule(w, r, proxy)
	}))
	t.Cleanup(func() {
		g.server.CloseClientConnections()
		g.server.Close()
	})
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.server.Certificate().Raw})
	config, err := clientcmd.LoadFromFile(b.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range config.Clusters {
		c.Server, c.CertificateAuthorityData = g.server.URL, certificate
	}
	if err := clientcmd.WriteToFile(*config, g.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return g
}

// launcher is a client whose requests go through the proxy.
func (g *apiProxy) launcher() *kuberay.Launcher {
	return kuberay.New(kuberay.Config{Kubeconfig: g.kubeconfig})
}

// set changes what is done with requests from now on, and cuts the connections that are open, port-forwards aside.
func (g *apiProxy) set(r rule) {
	g.mu.Lock()
	g.rule = r
	g.mu.Unlock()
	g.server.CloseClientConnections()
}

// passOn passes everything on.
func passOn(w http.ResponseWriter, r *http.Request, pass http.Handler) { pass.ServeHTTP(w, r) }

// refuse answers as the API server does.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

// cutConnection ends the connection without an answer.
func cutConnection(w http.ResponseWriter) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		conn.Close()
	}
}

// writes reports whether a request changes something in the cluster.
func writes(r *http.Request) bool {
	if r.URL.Query().Get("dryRun") != "" {
		return false
	}
	return r.Method == http.MethodPost && r.Header.Get("Upgrade") == "" || r.Method == http.MethodPatch || r.Method == http.MethodDelete
}

// webhook lets the API server ask about each object of a resource that is created in the namespace, by a mutating webhook of this name.
func (b bed) webhook(t *testing.T, name, resource string, answer func(*admissionv1.AdmissionRequest, *admissionv1.AdmissionResponse)) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := admissionv1.AdmissionReview{}
		if json.NewDecoder(r.Body).Decode(&review) != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		answer(review.Request, response)
		review.Response, review.Request = response, nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(s.Close)
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	object := "webhook-" + resource + "-" + b.namespace
	b.Create(t, "", fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: %s}
webhooks:
- name: %s
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {url: %q, caBundle: %s}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}
  rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE], resources: [%s]}]`, object, name, s.URL+"/ask", bundle, b.namespace, resource))
	t.Cleanup(func() {
		hooks := b.Core.AdmissionregistrationV1().MutatingWebhookConfigurations()
		if err := hooks.Delete(context.Background(), object, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// dieAfter lets n writes through, one after the other, and nothing after them.
func dieAfter(n int, done *atomic.Int32, die func()) rule {
	var one sync.Mutex
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		one.Lock()
		switch {
		case int(done.Load()) >= n:
			one.Unlock()
			die()
			cutConnection(w)
		case writes(r):
			defer one.Unlock()
			done.Add(1)
			pass.ServeHTTP(w, r)
		default:
			one.Unlock()
			pass.ServeHTTP(w, r)
		}
	}
}

// headless is a job whose head finds no node: only the keeper runs, and starts no Ray.
func headless(name string) *spec.ClusterSpec {
	s := named(name, "echo never")
	s.Head.Sections = kuberayspec.PatchIn(spec.Object{"spec": map[string]any{"nodeSelector": map[string]any{"rayctl.test/none": "here"}}})
	return s
}

// patience is generous: testing machines are loaded.
const patience = 5 * time.Minute

func (b bed) conformance() conformance.Config {
	return conformance.Config{
		Setting: b.kubeconfig,
		Spec:    smallSpec,
		Alone:   smallSpec,
		TwoGroups: func() *spec.ClusterSpec {
			s := smallSpec()
			s.Head = spec.Head{On: "a"}
			s.Workers = []spec.WorkerGroup{{Name: "a", NodeResources: smallNode()}, {Name: "b", NodeResources: smallNode()}}
			s.Workers[1].Resources = map[string]float64{"b": 1}
			return s
		},
		GPUNodes: func() *spec.ClusterSpec {
			s, node, two := smallSpec(), smallNode(), 2
			node.GPUs = 2
			s.Head, s.Workers = spec.Head{On: "gpu"}, []spec.WorkerGroup{{Name: "gpu", Replicas: &two, NodeResources: node}}
			return s
		},
		Allocated: b.left, KillKeeper: b.killKeeper, KillKeeperProcess: b.killKeeperProcess, KeeperReturns: true, KillHead: b.killHead,
		Hold: b.hold, FreezeDashboard: b.freezeDashboard, NameServiceAway: b.nameServiceAway,
		HoldWorkers: b.holdWorkers, Elastic: true, PacksFirst: true,
		Without:  map[string]string{"client killed before the commit": "TestClientDiesBetweenWrites ends clients after each write that comes after the packing"},
		OneToken: true, Surfaces: b.surfaces, Story: b.story, Patience: patience,
	}
}

// holdWorkers lets them wait in a queue of their own.
func (b bed) holdWorkers(t *testing.T, s *spec.ClusterSpec) func() {
	t.Helper()
	queue := b.tinyQueue(t)
	s.Sections = kuberayspec.In(&kuberayspec.Section{Queue: queue})
	return func() { b.widen(t, queue) }
}

func smallSpec() *spec.ClusterSpec {
	return &spec.ClusterSpec{
		Launcher: kuberayspec.Name, Ray: spec.Ray{Version: "2.60.0"},
		Head: spec.Head{NodeResources: smallNode()},
	}
}

func smallNode() spec.NodeResources {
	return spec.NodeResources{CPUs: 0.2, Memory: resource.MustParse("2Gi")} // a head takes 0.7 GiB; the node's memory limits how many tests run side by side
}

// findings are doctor's checks by name.
func findings(t *testing.T, l *kuberay.Launcher, s *spec.ClusterSpec) map[string]launcher.Check {
	t.Helper()
	out := map[string]launcher.Check{}
	for _, c := range l.Check(t.Context(), s) {
		out[c.Name] = c
	}
	return out
}

// fails expects a check to fail with this reason.
func fails(t *testing.T, checks map[string]launcher.Check, name, why string) {
	t.Helper()
	if c := checks[name]; c.OK || !strings.Contains(c.Detail+" "+c.Hint, why) {
		t.Errorf("%s: %+v, want a failure with %q", name, c, why)
	}
}

// widen gives a queue room.
func (b bed) widen(t *testing.T, queue string) {
	t.Helper()
	wide := []byte(`{"spec": {"capability": {"cpu": "100"}}}`)
	if _, err := b.Dynamic.Resource(kubetest.Queues).Patch(t.Context(), queue, types.MergePatchType, wide, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// allocation is the newest one of a purpose; of none, one without a state.
func allocation(s launcher.Status, purpose string) (found runstate.Allocation) {
	for _, a := range s.Allocations {
		if a.Purpose == purpose {
			found = a
		}
	}
	return found
}

// wantApart: workers of one group beyond its least never stand in for those that another lacks: no pod gets a node, though as many as the gang has would fit.
func (b bed) wantApart(t *testing.T) {
	t.Helper()
	s, least, two, three := named("apart", "echo never"), 1, 2, 3
	lacking := smallNode()
	lacking.Sections = kuberayspec.PatchIn(spec.Object{"spec": map[string]any{"nodeSelector": map[string]any{"rayctl.test/none": "here"}}})
	s.Workers = []spec.WorkerGroup{
		{Name: "many", MinReplicas: &least, Replicas: &three, NodeResources: smallNode()},
		{Name: "lacking", Replicas: &two, NodeResources: lacking},
	}
	r := b.begin(t, b.l, s)
	r.until(t, "a reason to wait", func(st launcher.Status) bool {
		return st.Phase == runstate.Queued && strings.Contains(st.Reason.Message, "the gang does not fit yet")
	})
	if n := b.scheduled(t, r.id); n != 0 {
		t.Errorf("%d pods have a node", n)
	}
	if err := b.l.Terminate(t.Context(), r.id, launcher.End{Cause: "down"}); err != nil {
		t.Error(err)
	}
	<-r.done
}

// untilDrained is a part of drivers: an actor works on a node of the group w, until Ray drains it.
const untilDrained = `draining, here = ray._private.state.state.get_draining_nodes, ray.get_runtime_context().get_node_id()
class Worker:
    def node(self):
        return ray.get_runtime_context().get_node_id()
    def finish(self):
        time.sleep(2)
        return "finished"
worker = ray.remote(num_cpus=0, resources={"w": 1})(Worker).remote()
there = ray.get(worker.node.remote())
print("begun", flush=True)
while there not in draining():
    time.sleep(0.1)
`

// nodeNotes are what the timeline has of nodes.
func nodeNotes(events []runstate.Event) (text string) {
	for _, e := range events {
		if e.Kind == "node" {
			text += e.To + ": " + e.Message + "\n"
		}
	}
	return text
}

// evict asks for the eviction of pods, as `kubectl drain`, Karpenter and the cluster autoscaler do.
func (b bed) evict(t *testing.T, selector string) {
	t.Helper()
	pods, err := b.Core.CoreV1().Pods(b.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("pods %s: %v, %v", selector, pods, err)
	}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil {
			continue
		}
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: b.namespace}}
		if err := b.Core.PolicyV1().Evictions(b.namespace).Evict(t.Context(), eviction); err != nil {
			t.Fatal(err)
		}
	}
}

func (b bed) secret(t *testing.T, name string, kind corev1.SecretType, key, value string) {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, StringData: map[string]string{key: value}}
	if _, err := b.Core.CoreV1().Secrets(b.namespace).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// keeperSays repeats a request to the keeper until it succeeds, and returns the state.
func (b bed) keeperSays(t *testing.T, id launcher.ID, ask func(context.Context, *keeper.Client) (*runstate.State, error)) (st *runstate.State) {
	t.Helper()
	kubetest.Await(t, "the keeper's answer", func(ctx context.Context) error {
		e, err := b.l.Dial(ctx, id, launcher.Keeper)
		if err != nil {
			return fmt.Errorf("dial: %w", err)
		}
		defer e.Close()
		k := launcher.KeeperClient(e)
		defer k.Close()
		st, err = ask(ctx, k)
		return err
	})
	return st
}

// scheduled counts the Ray pods of a cluster that have a node.
func (b bed) scheduled(t *testing.T, id launcher.ID) (n int) {
	t.Helper()
	pods, err := b.Core.CoreV1().Pods(b.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "ray.io/cluster=" + string(id)})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.Spec.NodeName != "" && p.Status.Phase != corev1.PodFailed {
			n++
		}
	}
	return n
}

// awaitNothing waits until Kubernetes has collected what a launch that failed has deleted.
func (b bed) awaitNothing(t *testing.T, id launcher.ID) {
	t.Helper()
	kubetest.Await(t, "the end of "+string(id), func(context.Context) error {
		if left := b.allocated(t, id); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
}

// job reads a Job.
func (b bed) job(t *testing.T, name string) *batchv1.Job {
	t.Helper()
	j, err := b.Core.BatchV1().Jobs(b.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// awaitQuota waits until no pod is let in any more.
func (b bed) awaitQuota(t *testing.T) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "any"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}}}
	kubetest.Await(t, "the quota to count", func(ctx context.Context) error {
		_, err := b.Core.CoreV1().Pods(b.namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), "exceeded quota") {
			return nil
		}
		return errors.Join(errors.New("a pod is let in"), err)
	})
}

// dryRun lets the API server validate strictly, without creating, what `rayctl render` prints, as `kubectl apply --server-side -f -` sends it.
func (b bed) dryRun(ctx context.Context, f launcher.File) error {
	o := &unstructured.Unstructured{}
	if err := kyaml.UnmarshalStrict(f.Content, &o.Object); err != nil {
		return err
	}
	o.SetNamespace(b.namespace)
	text, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	gvk := o.GroupVersionKind()
	resource := schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: strings.ToLower(gvk.Kind) + "s"}
	_, err = b.Dynamic.Resource(resource).Namespace(b.namespace).Patch(ctx, o.GetName(), types.ApplyPatchType, text,
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "kubectl", FieldValidation: metav1.FieldValidationStrict})
	return err
}

// createAll creates the objects of a file in the namespace.
func (b bed) createAll(t *testing.T, manifests string) {
	t.Helper()
	for _, document := range strings.Split(manifests, "---\n") {
		if strings.Contains(document, "kind:") {
			b.Create(t, b.namespace, document)
		}
	}
}

// oneOf has a worker's pod ask for such a resource.
func oneOf(unit string) spec.Sections {
	return kuberayspec.PatchIn(spec.Object{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "ray-worker", "resources": map[string]any{"limits": map[string]any{unit: "1"}}},
	}}})
}

// recorder writes events as a component does, until the test's end.
func (b bed) recorder(t *testing.T, component string) record.EventRecorder {
	t.Helper()
	events := record.NewBroadcaster()
	t.Cleanup(events.Shutdown)
	events.StartRecordingToSink(&typed.EventSinkImpl{Interface: b.Core.CoreV1().Events("")})
	return events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
}

// worker is the pod of group w, another one than that of this UID, when the scheduler has looked at it.
func (b bed) worker(t *testing.T, before types.UID) (pod *corev1.Pod) {
	t.Helper()
	kubetest.Await(t, "the worker's pod", func(ctx context.Context) error {
		pods, err := b.Core.CoreV1().Pods(b.namespace).List(ctx, metav1.ListOptions{LabelSelector: "ray.io/group=w"})
		if err != nil {
			return err
		}
		for _, p := range pods.Items {
			if p.UID != before && p.DeletionTimestamp == nil && len(p.Status.Conditions) > 0 {
				pod = &p
				return nil
			}
		}
		return errors.New("it is not there")
	})
	return pod
}

// offer gives the node a resource, for this test.
func (b bed) offer(t *testing.T, name, amount string) {
	t.Helper()
	patch := func(value any) error {
		text, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": map[string]any{name: value}, "allocatable": map[string]any{name: value}}})
		if err != nil {
			return err
		}
		_, err = b.Core.CoreV1().Nodes().Patch(context.Background(), machine.NodeName, types.StrategicMergePatchType, text, metav1.PatchOptions{}, "status")
		return err
	}
	if err := patch(amount); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := patch(nil); err != nil {
			t.Error(err)
		}
	})
}

// account is a service account of the namespace that may do this there.
func (b bed) account(t *testing.T, name string, rules ...rbacv1.PolicyRule) string {
	t.Helper()
	meta, ctx, rbac := metav1.ObjectMeta{Name: name}, t.Context(), b.Core.RbacV1()
	_, err := b.Core.CoreV1().ServiceAccounts(b.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	noError(t, err)
	_, err = rbac.Roles(b.namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	noError(t, err)
	_, err = rbac.RoleBindings(b.namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: b.subjects(name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	}, metav1.CreateOptions{})
	noError(t, err)
	return name
}

func (b bed) subjects(account string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: b.namespace}}
}

// noError fails the test with an error, and goes on; during its cleanup, too.
func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// minimalRole is the Role of docs/kuberay-reference.md.
func minimalRole(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	guide, err := os.ReadFile("../docs/kuberay-reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(guide), "## Permissions")
	_, after, _ = strings.Cut(after, "```yaml\n")
	text, _, found := strings.Cut(after, "```")
	var role rbacv1.Role
	if err := kyaml.UnmarshalStrict([]byte(text), &role); err != nil || !found || len(role.Rules) < 5 {
		t.Fatalf("the Role in docs/kuberay-reference.md: %v", err)
	}
	return role.Rules
}

// limited is the launcher of a user with these rules and no others.
func (b bed) limited(t *testing.T, rules []rbacv1.PolicyRule) *kuberay.Launcher {
	t.Helper()
	return kuberay.New(kuberay.Config{Kubeconfig: b.LimitedKubeconfig(t, b.namespace, rules...)})
}

// without takes verbs from the rule of a resource.
func without(rules []rbacv1.PolicyRule, verbs, resource string) (out []rbacv1.PolicyRule) {
	for _, r := range rules {
		r = *r.DeepCopy()
		if r.Resources[0] == resource {
			r.Verbs = slices.DeleteFunc(r.Verbs, func(v string) bool { return slices.Contains(strings.Split(verbs, ","), v) })
		}
		if len(r.Verbs) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// whole is a launch as the command makes it: working directory, runtime environment, secret.
func whole(t *testing.T, name string) (*spec.ClusterSpec, launcher.Payload) {
	t.Helper()
	return wholeWith(t, name, nil)
}

// wholeWith is whole with another file of that content in the working directory.
func wholeWith(t *testing.T, name string, other []byte) (*spec.ClusterSpec, launcher.Payload) {
	t.Helper()
	s := named(name, `echo "$(cat word.txt) $WORD $HIDDEN"; `+waitingDriver)
	s.Secrets = []spec.Secret{{Name: "HIDDEN"}}
	path, uri := filepath.Join(t.TempDir(), "package.zip"), "gcs://_ray_pkg_0123456789abcdef.zip"
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(file)
	w, err := z.Create("word.txt")
	if err == nil {
		_, err = w.Write([]byte("packed"))
	}
	if err == nil && other != nil {
		if w, err = z.Create("other"); err == nil {
			_, err = w.Write(other)
		}
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	info, err := file.Stat()
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	packages := &launcher.Packages{
		Files:      []launcher.PackageFile{{URI: uri, Path: path, Size: info.Size()}},
		RuntimeEnv: map[string]any{"working_dir": uri, "env_vars": map[string]any{"WORD": "enveloped"}},
	}
	return s, launcher.Payload{
		Packages: func(context.Context) (*launcher.Packages, error) { return packages, nil },
		Secrets:  map[string]string{"HIDDEN": "hidden"},
	}
}

// wantOneAccount: the receipt of a run that had several keepers, and whose driver ran for at least so many seconds.
func (r *watchedRun) wantOneAccount(t *testing.T, ran float64) {
	t.Helper()
	receipt, seen := r.outcome.Receipt, map[string]int{}
	for _, e := range receipt.Timeline {
		seen[e.Kind+" "+e.To]++
	}
	for _, once := range []string{"phase Starting", "phase Ready", "commit ", "job RUNNING", "job SUCCEEDED", "phase Gone"} {
		if seen[once] != 1 {
			t.Errorf("%q is %d times in the timeline", once, seen[once])
		}
	}
	if seen["keeper resumed"] == 0 || len(receipt.Attempts) != 1 {
		t.Errorf("keepers %d, attempts %+v", seen["keeper resumed"], receipt.Attempts)
	}
	if receipt.Durations.Driver < ran || receipt.Usage.BusyNodeSeconds < ran || receipt.Log.Bytes == 0 || len(receipt.Log.Missing) > 0 {
		t.Errorf("the driver ran for %.1f s at least: %+v, %+v, %+v", ran, receipt.Durations, receipt.Usage, receipt.Log)
	}
	if t.Failed() {
		t.Logf("timeline: %+v", receipt.Timeline)
	}
}

// keeperProcess waits for the keeper's process, which is one of this machine.
func (b bed) keeperProcess(t *testing.T, id launcher.ID) (pod string, pid int) {
	t.Helper()
	return b.roleProcess(t, id, "keeper", "\x00/rayctl/keeper.pyz\x00pod-keeper\x00")
}

// roleProcess waits for a process in the pods of a role.
func (b bed) roleProcess(t *testing.T, id launcher.ID, role, part string) (pod string, pid int) {
	t.Helper()
	return b.process(t, "rayctl.io/role="+role+",rayctl.io/name="+string(id), part)
}

// process waits for a process in the pods with these labels, with a part of its command line.
func (b bed) process(t *testing.T, selector, part string) (pod string, pid int) {
	t.Helper()
	kubetest.Await(t, "a process in the pods "+selector, func(ctx context.Context) error {
		pods, err := b.Core.CoreV1().Pods(b.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		for _, p := range pods.Items {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				if pod, pid = p.Name, processOf(string(p.UID), part); pid > 0 {
					return nil
				}
			}
		}
		return fmt.Errorf("it runs in none of %d pods", len(pods.Items))
	})
	return pod, pid
}

// processOf finds the process of a pod with a part of its command line, whose arguments end with NUL; 0: none.
func processOf(uid, part string) int {
	files, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, file := range files {
		groups, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(groups), "pod"+uid) {
			continue
		}
		command, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err != nil || !strings.Contains(string(command), part) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		return pid
	}
	return 0
}

// awaitNote waits until later keepers can know that the job was submitted.
func (b bed) awaitNote(t *testing.T, id launcher.ID) {
	t.Helper()
	kubetest.Await(t, "the note of the submission", func(ctx context.Context) error {
		secret, err := b.Core.CoreV1().Secrets(b.namespace).Get(ctx, string(id)+"-rayctl", metav1.GetOptions{})
		if err == nil && string(secret.Data["submitted"]) != "1" {
			err = errors.New("it is not there")
		}
		return err
	})
}

// wantRefusal checks an error's code and what its sentence has.
func wantRefusal(t *testing.T, err error, code int, texts ...string) {
	t.Helper()
	if err == nil || launcher.ExitCode(err) != code {
		t.Fatalf("code %d, want %d: %v", launcher.ExitCode(err), code, err)
	}
	for _, want := range texts {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q", err, want)
		}
	}
}

// Rules that differ in how a pod may be reached.
var (
	spdyOnly  = permit("pods/portforward", "create")
	proxyOnly = permit("services/proxy", "get", "create", "update")
)

func permit(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
}

// reachingBy is the guide's Role with another way to pods.
func reachingBy(t *testing.T, way ...rbacv1.PolicyRule) []rbacv1.PolicyRule {
	t.Helper()
	rules := slices.DeleteFunc(minimalRole(t), func(r rbacv1.PolicyRule) bool { return r.Resources[0] == "pods/portforward" })
	return append(rules, way...)
}

// awaitRefused waits until the API server refuses this pod with these words: rules count some time after they are made.
func (b bed) awaitRefused(t *testing.T, pod *corev1.Pod, words string) {
	t.Helper()
	b.awaitRefusal(t, words, func(ctx context.Context, o metav1.CreateOptions) error {
		_, err := b.Core.CoreV1().Pods(b.namespace).Create(ctx, pod, o)
		return err
	})
}

// awaitRefusal is awaitRefused for any object, of which create makes a dry run.
func (b bed) awaitRefusal(t *testing.T, words string, create func(context.Context, metav1.CreateOptions) error) {
	t.Helper()
	kubetest.Await(t, "a refusal: "+words, func(ctx context.Context) error {
		err := create(ctx, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), words) {
			return nil
		}
		return errors.Join(errors.New("it is let in"), err)
	})
}

// policy makes a ValidatingAdmissionPolicy that counts in the test's namespace alone, and waits until it does.
func (b bed) policy(t *testing.T, name, resources, expression, message string) {
	t.Helper()
	b.Create(t, "", fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %s}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: ["*"], operations: [CREATE], resources: [%s]}]}
  validations: [{expression: %q, message: %q}]`, name, resources, expression, message))
	b.Create(t, "", fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %s}
spec: {policyName: %s, validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}}}`, name, name, b.namespace))
	t.Cleanup(func() {
		o, ctx := metav1.DeleteOptions{}, context.Background()
		policies := b.Core.AdmissionregistrationV1()
		if err := errors.Join(policies.ValidatingAdmissionPolicyBindings().Delete(ctx, name, o), policies.ValidatingAdmissionPolicies().Delete(ctx, name, o)); err != nil {
			t.Error(err)
		}
	})
}

func smallContainer(memory string) corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
	return corev1.ResourceRequirements{Requests: list, Limits: list}
}

func anyPod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "any"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}}}
}

func anyService() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "any"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}}
}

// level gives the namespace a Pod Security profile.
func (b bed) level(t *testing.T, profile string) {
	t.Helper()
	_, err := b.Core.CoreV1().Namespaces().Patch(t.Context(), b.namespace, "application/merge-patch+json",
		fmt.Appendf(nil, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":%q}}}`, profile), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// proxy is a container.
const proxy = `{"name": %q, %s, "securityContext": {"runAsUser": 1000, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}`

// stubborn never ends by itself; as an init container that restarts it is a native sidecar.
const (
	stubborn = `"image": "rayctl.test/pause:1"`
	native   = stubborn + `, "restartPolicy": "Always"`
)

// injectBeside adds one for each of these programs to these pods.
func (b bed) injectBeside(t *testing.T, asNative bool, wanted func(pod corev1.Pod) bool, programs ...string) {
	t.Helper()
	b.webhook(t, "inject.rayctl.test", "pods", func(asked *admissionv1.AdmissionRequest, answer *admissionv1.AdmissionResponse) {
		pod := corev1.Pod{}
		if err := json.Unmarshal(asked.Object.Raw, &pod); err != nil {
			t.Error(err)
		}
		if wanted(pod) {
			kind := admissionv1.PatchTypeJSONPatch
			answer.PatchType, answer.Patch = &kind, patchOf(pod, asNative, programs)
		}
	})
	kubetest.Await(t, "the webhook to count", func(ctx context.Context) error {
		p, err := b.Core.CoreV1().Pods(b.namespace).Create(ctx, anyPod(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && len(p.Spec.Containers)+len(p.Spec.InitContainers) < 2 {
			err = fmt.Errorf("nothing is added")
		}
		return err
	})
}

func patchOf(pod corev1.Pod, asNative bool, programs []string) []byte {
	list, has := "containers", true
	if asNative {
		list, has = "initContainers", len(pod.Spec.InitContainers) > 0
	}
	var operations []string
	if !has {
		operations = append(operations, `{"op": "add", "path": "/spec/`+list+`", "value": []}`)
	}
	for i, program := range programs {
		name := "mesh-proxy" + strings.Repeat("-too", i)
		operations = append(operations, `{"op": "add", "path": "/spec/`+list+`/0", "value": `+fmt.Sprintf(proxy, name, program)+`}`)
	}
	return []byte("[" + strings.Join(operations, ", ") + "]")
}

var tinyQueues atomic.Int32

// tinyQueue is a queue of its own that has no room for any pod of Ray's.
func (b bed) tinyQueue(t *testing.T) string {
	t.Helper()
	queue := fmt.Sprintf("tiny-%s-%d", b.namespace, tinyQueues.Add(1))
	b.Create(t, "", `{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: `+queue+`}, spec: {weight: 1, capability: {cpu: 100m}}}`)
	t.Cleanup(func() {
		if err := b.Dynamic.Resource(kubetest.Queues).Delete(context.Background(), queue, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return queue
}

// loseKeeper loses the keeper of a cluster and waits for the next one.
func (b bed) loseKeeper(t *testing.T, id launcher.ID, lose func(pid int)) {
	t.Helper()
	_, pid := b.keeperProcess(t, id)
	lose(pid)
	kubetest.Await(t, "the end of the keeper of "+string(id), func(context.Context) error {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			return fmt.Errorf("process %d is still there", pid)
		}
		return nil
	})
	b.keeperProcess(t, id)
}
