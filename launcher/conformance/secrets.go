package conformance

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/leak"
)

// seen checks five things on one cluster: what a framework's driver gets from rayctl, how the driver continues after a restart, what a launch of another spec under
// the same name returns, that secrets appear nowhere but in the driver and its actors, and what is left after the end.
func seen(t *testing.T, s *suite) {
	tokens := map[string]string{"HF_TOKEN": "s3cr3t $(id) '\"" + randomHex(12), "WANDB_API_KEY": randomHex(20)}
	sp := s.named(t, s.GPUNodes(), "exec "+python(standIn))
	sp.Job.Restarts.Driver = 1
	for name := range tokens {
		sp.Secrets = append(sp.Secrets, spec.Secret{Name: name})
	}
	payload := func(sp *spec.ClusterSpec) launcher.Payload {
		p := payloadOf(sp)
		maps.Copy(p.Secrets, tokens)
		return p
	}
	id, err := s.l.Launch(s.context(t), sp, payload(sp))
	if err != nil {
		t.Fatal(err)
	}
	want := s.standsIn(t, id, tokens)
	t.Run("another spec under the same name", func(t *testing.T) { s.conflict(t, id, sp, payload) })
	secrets := append(slices.Sorted(maps.Values(tokens)), s.token(t, id, launcher.Dashboard), s.token(t, id, launcher.Keeper), secretOf(sp))
	surfaces := s.surfaces(t, id)
	s.examine(t, id, surfaces, secrets...)
	s.terminateNow(t, id)
	if left := s.Allocated(t, id); len(left) > 0 {
		t.Errorf("allocated after Terminate returned: %s", strings.Join(left, ", "))
	}
	t.Run("secrets", func(t *testing.T) { s.secrets(t, id, sp, surfaces, secrets) })
	t.Run("stand-in of a framework", func(t *testing.T) {
		if got := string(s.savedLog(t, id)); got != want {
			t.Errorf("the driver printed %q\nwant %q", got, want)
		}
	})
	t.Run("terminate", func(t *testing.T) { s.terminated(t, id) })
}

// standIn is a driver that uses rayctl's variables as the drivers of RL frameworks do, but needs no framework. It continues from its checkpoint in the output
// directory, prints the cluster's size and the end of the run, and prints digests of the tokens that it and an actor got. Its first attempt kills itself after it
// has written the checkpoint.
const standIn = `import hashlib, os, ray, signal, time
ray.init(log_to_driver=False, logging_level="ERROR")
@ray.remote(num_cpus=0)
class Actor:
    def tokens(self): return tokens()
def tokens(): return [hashlib.sha256(os.environ[name].encode()).hexdigest() for name in ("HF_TOKEN", "WANDB_API_KEY")]
actor = Actor.remote()
of_actor = ray.get(actor.tokens.remote())
checkpoint = os.path.join(os.environ["RAYCTL_OUTPUT_DIR"], "checkpoint")
step = int(open(checkpoint).read()) if os.path.exists(checkpoint) else 0
print("attempt", os.environ["RAYCTL_ATTEMPT"], os.environ["RAYCTL_RESTART_REASON"], "from step", step)
gpus = [int(node["Resources"]["GPU"]) for node in ray.nodes() if node["Alive"] and "GPU" in node["Resources"]]
print("nodes", os.environ["RAYCTL_GPU_NODES"], "GPUs", os.environ["RAYCTL_GPUS_PER_NODE"], "of", gpus)
print("ends", os.environ["RAYCTL_ENDS_AT"], os.environ["MLP_CURRENT_CAPACITY_BLOCK_EXPIRATION_TIMESTAMP"])
print("tokens", *tokens(), *of_actor, flush=True)
if step == 0:
    with open(checkpoint, "w") as file: file.write("3")
    os.kill(os.getpid(), signal.SIGKILL)
print("goes on", flush=True)
time.sleep(600)`

// standsIn waits until the second attempt of the stand-in has continued from the checkpoint, and returns what both attempts should have printed.
func (s *suite) standsIn(t *testing.T, id launcher.ID, tokens map[string]string) (want string) {
	t.Helper()
	if !s.printed(t, id, "goes on\n") {
		t.Fatalf("the second attempt did not go on: %s", s.savedNow(t, id))
	}
	st := s.until(t, id, "bounded", func(st launcher.Status) bool { return st.Deadlines.Max != nil })
	digests := ""
	for _, name := range []string{"HF_TOKEN", "WANDB_API_KEY"} {
		sum := sha256.Sum256([]byte(tokens[name]))
		digests += " " + hex.EncodeToString(sum[:])
	}
	of := fmt.Sprintf("nodes 2 GPUs 2 of [2, 2]\nends %d %[1]d\ntokens%s%[2]s\n", st.Deadlines.Max.Unix(), digests)
	return "attempt 1  from step 0\n" + of + "attempt 2 driver-failed from step 3\n" + of + "goes on\n"
}

// surfaces returns the texts in which a living cluster could show a secret: those of the substrate, Ray's own description of its jobs, and the status.
func (s *suite) surfaces(t *testing.T, id launcher.ID) map[string][]byte {
	t.Helper()
	surfaces := s.Surfaces(t, id)
	surfaces["job API"] = s.jobDocument(t, id)
	if n := bytes.Count(surfaces["job API"], []byte(`"RAYCTL_ENDS_AT"`)); n != 2 {
		t.Errorf("the job API tells the environment of %d drivers, there were 2: %s", n, surfaces["job API"])
	}
	surfaces["status"] = mustJSON(t, s.until(t, id, "seen", func(launcher.Status) bool { return true }))
	return surfaces
}

// secrets checks that the secrets, which driver and actor got, appear nowhere else: not in what the substrate shows or stores, not in status or receipt, and not in
// Ray's own description of the job, which may have their names only. surfaces has the texts from the cluster's life; secrets adds the texts after its end.
func (s *suite) secrets(t *testing.T, id launcher.ID, sp *spec.ClusterSpec, surfaces map[string][]byte, secrets []string) {
	surfaces["receipt"] = mustJSON(t, launcher.NewReceipt(s.untilGone(t, id)))
	for name, b := range s.Surfaces(t, id) {
		surfaces["after the end: "+name] = b
	}
	rendered, err := s.l.Render(sp)
	if err != nil {
		t.Errorf("render: %v", err)
	}
	for _, f := range rendered {
		surfaces["rendered "+f.Name] = f.Content
	}
	wantAbsent(t, surfaces, secrets...)
}

func wantAbsent(t *testing.T, surfaces map[string][]byte, values ...string) {
	t.Helper()
	for _, v := range values {
		tail := v[max(0, len(v)-20):] // the end of a secret, which quoting does not change
		for name, b := range surfaces {
			if how := cmp.Or(leak.Find(b, v), leak.Find(b, tail)); how != "" {
				t.Errorf("a secret is in %s, %s", name, how)
			}
		}
	}
	if len(surfaces) < 5 {
		t.Errorf("only %d surfaces were searched", len(surfaces))
	}
}

// token is the token for connections to a target.
func (s *suite) token(t *testing.T, id launcher.ID, target launcher.Target) string {
	t.Helper()
	e, err := s.l.Dial(s.context(t), id, target)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if len(e.Token) < 32 {
		t.Fatalf("the %s has no token", target)
	}
	return e.Token
}

// jobDocument is what Ray's job API returns to every client with access, byte for byte.
func (s *suite) jobDocument(t *testing.T, id launcher.ID) []byte {
	t.Helper()
	e, err := s.l.Dial(s.context(t), id, launcher.Dashboard)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ask, err := http.NewRequestWithContext(s.context(t), http.MethodGet, strings.TrimSuffix(e.URL, "/")+"/api/jobs/", nil)
	if err != nil {
		t.Fatal(err)
	}
	ask.Header.Set(cmp.Or(e.TokenHeader, dashboardclient.HeaderAuthorization), "Bearer "+e.Token)
	connections := &http.Transport{DialContext: e.DialContext}
	defer connections.CloseIdleConnections()
	answer, err := (&http.Client{Transport: connections}).Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("jobs: %s, %v, %s", answer.Status, err, short(body))
	}
	return body
}

func (s *suite) savedNow(t *testing.T, id launcher.ID) string {
	s.terminateNow(t, id)
	return short(s.savedLog(t, id))
}

// hostileValues are values that often break shells, YAML and templates.
type hostileValues struct {
	program string // a command that prints the values that reach it, as a line of JSON
	want    string // that line
}

// hostile puts such values into every field that accepts them.
func hostile(sp *spec.ClusterSpec) hostileValues {
	values := map[string]string{
		"Q1": `a "quoted" 'word' and \ a backslash`,
		"Q2": "two\nlines\n",
		"Q3": "$(touch /tmp/rayctl-was-here) `id` ${HOME} $$",
		"Q4": "ünïcödé 雷 {{ .Name }} %s %d",
		"Q5": "; exit 9 # & | > < * ? ~ !",
		"Q6": "- yaml: [1, {a: b}]\t#x",
		"Q7": "",
	}
	sp.Job.Env, sp.Env = map[string]string{}, map[string]string{}
	for k, v := range values {
		sp.Job.Env[k], sp.Env["N"+k] = v, v
	}
	// Ray itself replaces $NAME and ${NAME} in the values of a job's env_vars (ray/_private/utils.py, update_envs), which is wanted for PATH.
	sp.Job.Env["Q3"] = strings.ReplaceAll(values["Q3"], "${HOME}", "${}")
	sp.Job.Metadata = map[string]string{"note": values["Q1"] + values["Q3"]}
	arguments := []string{values["Q1"], values["Q2"], values["Q3"], values["Q4"]}
	inJob := maps.Clone(values)
	inJob["Q3"] = sp.Job.Env["Q3"]
	want, _ := json.Marshal([]any{inJob, values, arguments}) // strings never fail
	return hostileValues{want: string(want), program: python(`import json, os, sys
names = ["Q%d" % i for i in range(1, 8)]
print(json.dumps([{n: os.environ.get(n) for n in names}, {n: os.environ.get("N" + n) for n in names}, sys.argv[1:]]))`) + " " + shellescape.QuoteCommand(arguments)}
}

func (h hostileValues) check(t *testing.T, printed string) {
	t.Helper()
	var got any
	if err := json.Unmarshal([]byte(printed), &got); err != nil {
		t.Fatalf("output %q: %v", short([]byte(printed)), err)
	}
	if g := string(mustJSON(t, got)); g != h.want {
		t.Errorf("the driver saw %s\nwant %s", g, h.want)
	}
}
