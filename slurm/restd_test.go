//go:build linux

package slurm_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/leak"
	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// restd is a testbed's real slurmrestd behind a proxy, which can drop answers.
type restd struct {
	*bed
	url, tokenFile string
	drop           atomic.Bool // the next answer to a POST
}

func startRestd(t *testing.T, b *bed) *restd {
	t.Helper()
	bridge, err := b.Bridge(t.Context(), b.RestAddress())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bridge.Close)
	r := &restd{bed: b}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: bridge.Addr})
	proxy.ModifyResponse = func(resp *http.Response) error {
		if resp.Request.Method == http.MethodPost && r.drop.CompareAndSwap(true, false) {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { cut(w) }
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until it is closed
	t.Cleanup(func() { _ = server.Close() })
	r.url = "http://" + listener.Addr().String()
	r.tokenFile = r.token(t, b.User(), 0o600)
	return r
}

// cut ends a connection without an answer.
func cut(w http.ResponseWriter) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = conn.Close()
	}
}

func (r *restd) token(t *testing.T, user string, mode os.FileMode) string {
	t.Helper()
	text, err := r.Token(user)
	if err != nil {
		t.Fatal(err)
	}
	return r.tokenOf(t, text, mode)
}

func (r *restd) tokenOf(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	return name
}

func (r *restd) over(t *testing.T, url, tokenFile string) *slurm.Launcher {
	t.Helper()
	l := slurm.New(slurm.Config{Runner: r.beside, REST: controller.NewREST(url, tokenFile), Dir: r.Dir()})
	t.Cleanup(l.Close)
	return l
}

func (r *restd) launcher(t *testing.T) *slurm.Launcher {
	t.Helper()
	return r.over(t, r.url, r.tokenFile)
}

// rest makes requests to the real slurmrestd.
func (b *bed) rest(t *testing.T) {
	needs.Root(t)
	r := startRestd(t, b)
	t.Run("Request", r.request)
	t.Run("Life", r.life)
	t.Run("Companion", r.companion)
	t.Run("LostAnswer", r.lostAnswer)
	t.Run("Refused", r.refusals)
	t.Run("Tokens", r.tokens)
	if r.Options.Version == slurmtest.DefaultVersion { // what follows is rayctl's own, after the answers of which there are three forms
		t.Run("Run", r.run)
		t.Run("Away", r.away)
	}
}

// life: a job is submitted, found, shown with the reason why it waits, and cancelled; nothing is left.
func (r *restd) life(t *testing.T) {
	release := r.occupy(t)
	defer release()
	l := r.launcher(t)
	id, err := l.Launch(t.Context(), r.named("rest", "echo it's $(id)"), launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	watchUntil(t, l, id, func(s launcher.Status) bool { return s.Reason.Code == "Resources" })
	r.rewrite(t, id)
	if listed, err := l.List(t.Context(), launcher.Selector{}); err != nil || len(listed) != 1 || listed[0].Phase != runstate.Queued {
		t.Errorf("list: %+v, %v", listed, err)
	}
	r.down(t, l, id)
	if result, err := l.Result(t.Context(), id); err != nil || result.Exit.Cause != "down" {
		t.Errorf("result: %+v, %v", result, err)
	}
	if err := l.Forget(t.Context(), id); err != nil {
		t.Error(err)
	}
	r.nothingLeft(t, "rest")
}

// lostAnswer: a submission whose answer was lost is found by its nonce, and made once.
func (r *restd) lostAnswer(t *testing.T) {
	release := r.occupy(t)
	defer release()
	l := r.launcher(t)
	r.drop.Store(true)
	id, err := l.Launch(t.Context(), r.named("rest-lost", "true"), launcher.Payload{})
	if err != nil || r.drop.Load() {
		t.Fatalf("%v; dropped: %v", err, !r.drop.Load())
	}
	if jobs := r.allocated(t, id); len(jobs) != 1 {
		t.Errorf("jobs: %q", jobs)
	}
	r.down(t, l, id)
	if err := l.Forget(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func (r *restd) refusals(t *testing.T) {
	l := r.launcher(t)
	for name, test := range map[string]struct {
		change func(*spec.ClusterSpec)
		want   string
	}{
		"no such partition":   {func(s *spec.ClusterSpec) { slurmspec.Of(s).Partition = "nope; $(id)" }, "slurm.partition"},
		"more CPUs":           {func(s *spec.ClusterSpec) { s.Workers[0].CPUs = 1000 }, "cpus"},
		"no such GPU":         {func(s *spec.ClusterSpec) { s.Workers[0].GPUs, s.Workers[0].GPUType = 1, "b200" }, "gpus"},
		"no such feature":     {func(s *spec.ClusterSpec) { slurmspec.Of(s).Constraint = "'quoted' thing" }, "slurm.constraint"},
		"no such reservation": {func(s *spec.ClusterSpec) { slurmspec.Of(s).Reservation = "r" }, "slurm.reservation"},
		"more memory":         {func(s *spec.ClusterSpec) { s.Workers[0].Memory = resource.MustParse("9Ti") }, "lower cpus, memory"},
		"no such dependency":  {func(s *spec.ClusterSpec) { slurmspec.Of(s).Dependency = "nonsense" }, "slurm.dependency"},
		"unlike switches":     {func(s *spec.ClusterSpec) { slurmspec.Of(s).Switches = "few" }, "slurm.switches"},
		"arguments of sbatch": {func(s *spec.ClusterSpec) { slurmspec.Of(s).ExtraArgs = []string{"--spread-job"} }, "--spread-job of slurm.extraArgs"},
	} {
		one := 1
		s := &spec.ClusterSpec{Name: "refused", Ray: spec.Ray{Python: r.python}, Sections: slurmspec.In(&slurmspec.Section{}), Workers: []spec.WorkerGroup{{Name: "w", Replicas: &one, NodeResources: small()}}}
		s.Job.Entrypoint = "true"
		test.change(s)
		_, err := l.Launch(t.Context(), s, launcher.Payload{})
		if launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v (code %d)", name, err, launcher.ExitCode(err))
		}
		r.nothingLeft(t, "refused")
	}
}

// the error of a token that cannot be used names the cause, without the token's text.
func (r *restd) tokens(t *testing.T) {
	good, err := r.Token(r.User())
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	forged := parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2]))
	for _, test := range []struct {
		name, text string
		mode       os.FileMode
		code       int
	}{
		{"expired", r.sign(t, time.Now().Add(-time.Minute)), 0o600, runstate.CodePermission},
		{"readable for others", good, 0o644, runstate.CodeConfig},
		{"not a token", "a\nb", 0o600, runstate.CodeConfig},
		{"empty", "", 0o600, runstate.CodeConfig},
		{"forged", forged, 0o600, runstate.CodePermission},
	} {
		file := r.tokenOf(t, test.text, test.mode)
		_, err := r.over(t, r.url, file).Launch(t.Context(), r.named("rest-token", "true"), launcher.Payload{})
		want := test.code
		if test.name == "forged" && r.Options.Version == slurmtest.OldestVersion {
			want = runstate.CodeUnreachable // 22.05 answers as if its controller were away
		}
		if launcher.ExitCode(err) != want {
			t.Errorf("%s: %v (code %d, want %d)", test.name, err, launcher.ExitCode(err), want)
		}
		if err != nil && test.text != "" && strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: the token is in %q", test.name, err)
		}
		r.nothingLeft(t, "rest-token")
	}
	if _, err := r.over(t, r.url, "/no/such/token").Launch(t.Context(), r.named("rest-token", "true"), launcher.Payload{}); launcher.ExitCode(err) != runstate.CodeConfig {
		t.Errorf("no file: %v (code %d)", err, launcher.ExitCode(err))
	}
}

// sign makes a token as Slurm does, with the site's key.
func (r *restd) sign(t *testing.T, end time.Time) string {
	t.Helper()
	key, err := os.ReadFile(r.Cluster.Dir + "/etc/jwt_hs256.key")
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode(fmt.Appendf(nil, `{"exp":%d,"iat":%d,"sun":%q}`, end.Unix(), end.Unix()-60, r.User()))
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(text)) // never fails (hash.Hash)
	return text + "." + encode(mac.Sum(nil))
}

// run is a whole run with real Ray; the token of slurmrestd is nowhere on the site.
func (r *restd) run(t *testing.T) {
	var out strings.Builder
	l := r.launcher(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := r.named("rest-up", "")
	s.Lifetime.Max = units.Limit(10 * time.Minute)
	none, most := 0, 1
	s.Workers = []spec.WorkerGroup{{Name: "b", Replicas: &none, MinReplicas: &none, MaxReplicas: &most, NodeResources: small()}}
	id, err := l.Launch(ctx, s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	watchUntil(t, l, id, func(s launcher.Status) bool { return s.Phase == runstate.Ready })
	r.grows(t, l, id)
	r.extends(t, l, id)
	r.down(t, l, id)
	if err := l.Forget(ctx, id); err != nil {
		t.Error(err)
	}
	oc, err := launcher.Run(ctx, l, r.named("rest-run", "echo from ray; exit 3"), launcher.Payload{}, launcher.RunOptions{Stdout: &out})
	if err != nil {
		t.Fatalf("%v\n%s", err, r.story(t, "rest-run"))
	}
	if out.String() != "from ray\n" || oc.Receipt.Exit.Code != 3 {
		t.Errorf("output %q, exit %+v", out.String(), oc.Receipt.Exit)
	}
	secret, err := os.ReadFile(r.tokenFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range r.surfaces(t, "rest-run") {
		if how := leak.Find(text, strings.TrimSpace(string(secret))); how != "" {
			t.Errorf("the token is in %s, %s", name, how)
		}
	}
	if err := l.Forget(ctx, "rest-run"); err != nil {
		t.Error(err)
	}
	r.nothingLeft(t, "rest-run")
}

// grows: compute nodes may not submit; a client of slurmrestd that watches submits the job of the node that the cluster is to have.
func (r *restd) grows(t *testing.T, l *slurm.Launcher, id launcher.ID) {
	t.Helper()
	update := func(nodes string) {
		if _, err := r.Slurm(context.Background(), "scontrol", "update", "PartitionName=main", "AllocNodes="+nodes); err != nil {
			t.Error(err)
		}
	}
	update("node99")
	defer update("ALL")
	err := launcher.AskKeeper(t.Context(), l, id, func(k *keeper.Client) error {
		_, err := k.Scale(t.Context(), keeper.Scale{Group: "b", Min: 1})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	watchUntil(t, l, id, func(s launcher.Status) bool { return s.Offers == 1 })
	update("ctl") // where slurmrestd is
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go launcher.SubmitOffers(ctx, l, id, slog.New(slog.DiscardHandler))
	s := watchUntil(t, l, id, func(s launcher.Status) bool { return alive(s, "b-0") })
	for _, n := range s.Nodes {
		if n.Allocation == "" || n.Joined == nil || n.Left != nil {
			t.Errorf("node %+v", n)
		}
	}
}

// away: neither slurmrestd nor its controller answers.
func (r *restd) away(t *testing.T) {
	if err := r.StopController(); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{r.url, "http://127.0.0.1:1"} {
		_, err := r.over(t, url, r.tokenFile).Launch(t.Context(), r.named("rest-away", "true"), launcher.Payload{})
		if launcher.ExitCode(err) != runstate.CodeUnreachable {
			t.Errorf("%s: %v (code %d)", url, err, launcher.ExitCode(err))
		}
		if _, err := os.Stat(r.bed.run("rest-away")); !os.IsNotExist(err) {
			t.Errorf("its directory is left: %v", err)
		}
	}
	r.startController(t)
}
