//go:build linux

package slurm_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
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
	"github.com/rayctl/rayctl/slurm/rundir"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/leak"
	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/slurmtest"
)

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

// request: Slurm's record of a job is the same whether sbatch or slurmrestd submitted it.
func (r *restd) request(t *testing.T) {
	for name, test := range map[string]struct {
		spec  func(name string) *spec.ClusterSpec
		parts int
		knows []string // among other things
	}{
		"full": {r.full, 2, []string{"NumTasks=1", "CPUs/Task=2", "MinMemoryNode=1G", "Requeue=1", "NtasksPerN:B:S:C=1:0:*:*", r.switches("Switches=1@00:02:30"),
			"Licenses=fluent:2", "WCKey=project", "MailUser=ann@example.org", "MailType=INVALID_DEPEND,BEGIN,END,FAIL,REQUEUE,STAGE_OUT,TIME_LIMIT_80", "Nice=7"}},
		"placed": {r.placedWorkers, 1, []string{"NumCPUs=18", "NumTasks=3", "CPUs/Task=6", "MinMemoryCPU=171M", "NtasksPerN:B:S:C=0:0:*:*", "Requeue=0", "Deadline=given", r.switches("Switches=1@00:02:00"), "Licenses=fluent", "MailType=END"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := r.known(t, r.bed.launcher(), test.spec("by-command")), r.known(t, r.launcher(t), test.spec("by-rest"))
			if !slices.Equal(a, b) || len(a) != 2*test.parts {
				t.Errorf("by sbatch:\n%s\nby slurmrestd:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
			}
			all := strings.Join(b, " ") + " "
			for _, word := range test.knows {
				if word != "" && !strings.Contains(all, word+" ") {
					t.Errorf("Slurm does not know %s of\n%s", word, strings.Join(b, "\n"))
				}
			}
		})
	}
}

// full is a cluster file that sets most of what a job can request.
func (r *restd) full(name string) *spec.ClusterSpec {
	yes := true
	s := r.twoGroups()
	s.Name, s.Job.Entrypoint = name, "true"
	s.Lifetime = spec.Lifetime{Max: units.Limit(time.Hour), Queue: units.Limit(time.Hour)}
	s.Workers[0].GPUs, s.Workers[0].GPUType = 2, "h100"
	s.Sections = slurmspec.In(&slurmspec.Section{Begin: "now+1hour", Group: slurmspec.Group{Partition: "main", Exclusive: &yes, Switches: r.switches("1@2:30"),
		ExtraArgs: []string{"--licenses=fluent:2", "--wckey=project", "--mail-type=ALL,TIME_LIMIT_80", "--mail-user=ann@example.org", "--nice=7"}}})
	s.Workers[0].Sections, s.Workers[1].Sections = slurmspec.GroupIn(&slurmspec.Group{Nodelist: "node1"}), slurmspec.GroupIn(&slurmspec.Group{Exclude: "node1"})
	return s
}

// switches are asked for where the API has them.
func (r *restd) switches(value string) string {
	if r.Options.Version == slurmtest.OldestVersion {
		return ""
	}
	return value
}

// placedWorkers are three on two nodes of which each has room for two. Their job starts once, so that it has a deadline.
func (r *restd) placedWorkers(name string) *spec.ClusterSpec {
	three, one, never := 3, smallNode(), units.Count(0)
	one.CPUs = 6
	s := &spec.ClusterSpec{Name: name, Ray: spec.Ray{Python: r.python}, Workers: []spec.WorkerGroup{{Name: "w", Replicas: &three, NodeResources: one}}}
	s.Job.Entrypoint, s.Job.Restarts.Preempted = "true", &never
	s.Lifetime = spec.Lifetime{Max: units.Limit(time.Hour), Queue: units.Limit(2 * time.Hour)}
	s.Sections = slurmspec.In(&slurmspec.Section{Begin: "now+1hour", Comment: "project 7, it's $(id)", Group: slurmspec.Group{Switches: r.switches("1@2"), ExtraArgs: []string{"-Lfluent", "--mail-type=END"}}})
	return s
}

// known is what squeue and scontrol print for each part of a cluster's job, without names, ids and times, which differ between jobs.
func (r *restd) known(t *testing.T, l *slurm.Launcher, s *spec.ClusterSpec) []string {
	t.Helper()
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.removed(t, l, id)
	out, err := r.Slurm(t.Context(), "squeue", "--noheader", "--sort=i", "--name="+s.Name, "--format=%A %C|%D|%m|%b|%l|%P|%r|%T|%x|%n|%h|%k")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.SplitSeq(strings.ReplaceAll(out, "name="+s.Name, "name=X"), "\n") {
		job, line, _ := strings.Cut(line, " ")
		line, _, _ = strings.Cut(line, " nonce=") // another one each time
		shown, err := r.Slurm(t.Context(), "scontrol", "--oneliner", "show", "job", job)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.ReplaceAll(line, "gres/gpu:", "gres:gpu:"), strings.Join(sizes(shown), " "))
	}
	return lines
}

// sizes are the fields of scontrol with a job's size and its distribution over nodes.
func sizes(shown string) (out []string) {
	for word := range strings.FieldsSeq(shown) {
		name, _, _ := strings.Cut(word, "=")
		switch name {
		case "NumNodes", "NumCPUs", "NumTasks", "CPUs/Task", "TRES", "ReqTRES", "NtasksPerN:B:S:C", "MinCPUsNode", "MinMemoryCPU", "MinMemoryNode", "OverSubscribe", "Exclusive", "Switches", "Requeue",
			"Licenses", "WCKey", "MailUser", "MailType", "Nice":
			out = append(out, word)
		case "Deadline":
			if word != "Deadline=N/A" {
				out = append(out, "Deadline=given")
			}
		}
	}
	return out
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

// companion: Slurm's record of the job of nodes, or of an early head's gang, is the same whether sbatch or a client of slurmrestd submitted what the keeper offers.
func (r *restd) companion(t *testing.T) {
	release := r.occupy(t)
	defer release()
	s, l := r.early("rest-more", "", "true"), r.launcher(t)
	none, two, most, yes := 0, 2, 3, true
	s.Lifetime.Max, s.Head.Sections = units.Limit(time.Hour), slurmspec.GroupIn(&slurmspec.Group{Partition: "main"})
	s.Workers[0].Replicas, s.Workers[0].GPUs, s.Workers[0].GPUType = &two, 1, "h100"
	s.Workers[1].Replicas, s.Workers[1].MinReplicas, s.Workers[1].MaxReplicas = &none, &none, &most
	s.Workers[1].Sections = slurmspec.GroupIn(&slurmspec.Group{Exclusive: &yes, Partition: "main", Exclude: "node1", ExtraArgs: []string{"--wckey=project", "--nice=7"}})
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.removed(t, l, id)
	root := rundir.NewRoot(rundir.Config{Runner: r.beside, Dir: r.Dir(), Script: script.File})
	defer root.Files.Close()
	run, err := root.Run(t.Context(), s.Name)
	if err == nil {
		err = run.Read(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	name, place := script.CompanionName(run.Record.Spec, run.Record.Nonce), run.Path("1")
	argv := func(nodes, file string, more ...string) []string {
		options := []string{"--job-name=" + name, "--output=" + place + "/nodes/" + nodes + "/companion.7.out", "--open-mode=append", "--chdir=" + run.Dir, "--no-requeue"}
		return slices.Concat(options, more[:len(more)-2], []string{run.Path(file), place}, more[len(more)-2:])
	}
	for what, offer := range map[string][]string{
		"array": argv("b-%a", script.CompanionFile("b"), "--comment=rayctl nodes of b", "--array=0,2", "--time=30", "--signal=B:USR1@60", "b-0", "7"),
		"one":   argv("b-1", script.CompanionFile("b"), "--comment=rayctl node b-1", "--signal=B:USR1@60", "b-1", "7"),
		"gang":  argv(keeper.Gang, script.GangFile, keeper.Gang, "7"),
	} {
		t.Run(what, func(t *testing.T) {
			batch := controller.Batch{Plan: script.PlanOf(run, 0), Argv: offer, Environment: []string{"PATH=/usr/bin:/bin"}}
			text, err := os.ReadFile(offer[slices.IndexFunc(offer, func(a string) bool { return a[0] == '/' })])
			if err != nil {
				t.Fatal(err)
			}
			batch.Text = string(text)
			var known [2]string
			for i, by := range []controller.Controller{controller.Commands{Runner: r.beside}, controller.NewREST(r.url, r.tokenFile)} {
				job, err := by.Submit(t.Context(), batch)
				if err != nil {
					t.Fatal(err)
				}
				known[i] = r.knownOf(t, job, text)
				if err := by.Cancel(t.Context(), job, false); err != nil {
					t.Error(err)
				}
			}
			if known[0] != known[1] || !strings.Contains(known[0], name) {
				t.Errorf("by sbatch:\n%s\nby slurmrestd:\n%s", known[0], known[1])
			}
		})
	}
}

// knownOf is what squeue and scontrol print of a job, without ids and times. Its script is the same but for the arguments.
func (r *restd) knownOf(t *testing.T, job int, script []byte) string {
	t.Helper()
	id := strconv.Itoa(job)
	out, err := r.Slurm(t.Context(), "squeue", "--noheader", "--sort=i", "--jobs="+id, "--format=%j|%K|%C|%D|%m|%b|%l|%P|%T|%x|%n|%h|%k|%Z")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := r.Slurm(t.Context(), "scontrol", "--oneliner", "show", "job", id)
	if err != nil {
		t.Fatal(err)
	}
	for word := range strings.FieldsSeq(shown) {
		if strings.HasPrefix(word, "StdOut=") {
			out += "\n" + word
		}
	}
	written, err := r.Slurm(t.Context(), "scontrol", "write", "batch_script", id, "-")
	if err != nil {
		t.Fatal(err)
	}
	_, command, _ := strings.Cut(string(script), "\nexec ")
	if !strings.Contains(written, "\nexec "+strings.TrimSpace(command)) {
		t.Errorf("the script of job %d:\n%s", job, written)
	}
	return strings.ReplaceAll(out, "gres/gpu:", "gres:gpu:") + "\n" + strings.Join(sizes(shown), " ")
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
		s := &spec.ClusterSpec{Name: "refused", Ray: spec.Ray{Python: r.python}, Sections: slurmspec.In(&slurmspec.Section{}), Workers: []spec.WorkerGroup{{Name: "w", Replicas: &one, NodeResources: smallNode()}}}
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
	s.Workers = []spec.WorkerGroup{{Name: "b", Replicas: &none, MinReplicas: &none, MaxReplicas: &most, NodeResources: smallNode()}}
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
		if _, err := os.Stat(r.runDir("rest-away")); !os.IsNotExist(err) {
			t.Errorf("its directory is left: %v", err)
		}
	}
	r.startController(t)
}
