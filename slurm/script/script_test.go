package script

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"mvdan.cc/sh/v3/syntax"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/needs"
)

func planFor(s *spec.ClusterSpec) Plan {
	s.Name = "x"
	return Plan{Spec: spec.For(s, slurmspec.Name), Python: "/v/bin/python", Programs: "/s/keeper/keeper-1", Run: "/s/runs/x", Nonce: "N"}
}

func group(name string, replicas int, r spec.NodeResources) spec.WorkerGroup {
	return spec.WorkerGroup{Name: name, Replicas: &replicas, NodeResources: r}
}

// grpo is a spec that uses most of what sbatch is asked for.
func grpo() *spec.ClusterSpec {
	exclusive := true
	return &spec.ClusterSpec{
		GPUTypes: map[string]spec.GPUType{"a100": {Sections: spec.Sections{slurmspec.Name: &slurmspec.GPUType{Constraint: "a100"}}}},
		Lifetime: spec.Lifetime{Max: units.Limit(4 * time.Hour), Queue: units.Limit(12 * time.Hour)},
		Job:      spec.Job{Entrypoint: "python grpo.py", Grace: durationPtr(5 * time.Minute)},
		Sections: slurmspec.In(&slurmspec.Section{Dependency: "afterok:1", Begin: "now+1hour", Group: slurmspec.Group{
			Partition: "gpu,gpu2", Account: "rl", QOS: "high", Reservation: "r", Switches: "1@10:00", Nodelist: "n[1-2]", Exclude: "n3", ExtraArgs: []string{"--segment=2"}}}),
		Workers: []spec.WorkerGroup{
			group("trainer", 4, spec.NodeResources{CPUs: 96, Memory: resource.MustParse("1500Gi"), GPUs: 8, GPUType: "h100"}),
			group("rollout", 2, spec.NodeResources{CPUs: 48, GPUs: 4, GPUType: "a100", Sections: slurmspec.GroupIn(&slurmspec.Group{Constraint: "ib"})}),
			group("reward", 1, spec.NodeResources{CPUs: 48, GPUs: 4, GPUType: "a100", Sections: slurmspec.GroupIn(&slurmspec.Group{Constraint: "ib"})}),
			group("cpu", 2, spec.NodeResources{Sections: slurmspec.GroupIn(&slurmspec.Group{Partition: "cpu", Exclusive: &exclusive})}),
		},
	}
}

// TestRequestsNoMemory: with slurm.requestMemory: false neither workers with memory nor whole nodes ask Slurm for it, and Ray is told of it all the same.
func TestRequestsNoMemory(t *testing.T) {
	none, exclusive := false, true
	p := planFor(&spec.ClusterSpec{
		Sections: slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{RequestMemory: &none}}),
		Workers:  []spec.WorkerGroup{group("a", 2, spec.NodeResources{CPUs: 2, Memory: resource.MustParse("4Gi")})},
	})
	if got := strings.Join(p.Directives(p.Components()[0], true), " "); strings.Contains(got, "--mem") || !strings.HasPrefix(got, "--ntasks=2 --cpus-per-task=2") {
		t.Error(got)
	}
	if orders := p.Orders(); orders.Groups[0].Memory == nil || *orders.Groups[0].Memory != 4<<30 {
		t.Errorf("%+v", orders.Groups)
	}
	p = planFor(&spec.ClusterSpec{
		Sections: slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{Exclusive: &exclusive}}),
		Workers: []spec.WorkerGroup{
			group("a", 1, spec.NodeResources{Sections: slurmspec.GroupIn(&slurmspec.Group{RequestMemory: &none})}), group("b", 1, spec.NodeResources{}),
		},
	})
	got := [2]string{}
	for i, c := range p.Components() {
		got[i] = strings.Join(p.Directives(c, false), " ")
	}
	if strings.Contains(got[0], "--mem") || !strings.Contains(got[1], "--mem=0") {
		t.Errorf("%q", got)
	}
}

func durationPtr(d time.Duration) *units.Duration { v := units.Duration(d); return &v }

func TestDirectives(t *testing.T) {
	p := planFor(grpo())
	components := p.Components()
	var got [][]string
	for i, c := range components {
		got = append(got, p.Directives(c, i == 0))
	}
	common := []string{"--account=rl", "--qos=high", "--reservation=r"}
	where := []string{"--nodelist='n[1-2]'", "--exclude=n3", "--switches=1@10:00"}
	want := [][]string{
		join([]string{"--nodes=4", "--ntasks-per-node=1", "--cpus-per-task=96", "--mem=1536000M", "--gpus-per-node=h100:8", "--partition=gpu,gpu2"}, common, where,
			[]string{"--time=248", "--job-name=x", "--comment='" + Comment("x", spec.Hash(p.Spec), "N") + "'", "--output=/s/runs/x/slurm.out", "--open-mode=append",
				"--chdir=/s/runs/x", "--signal=B:USR1@360", "--dependency=afterok:1", "--begin=now+1hour", "--requeue", "--segment=2"}),
		join([]string{"--nodes=3", "--ntasks-per-node=1", "--cpus-per-task=48", "--gpus-per-node=4", "--partition=gpu,gpu2"}, common,
			[]string{"--constraint='ib&a100'"}, where, []string{"--time=248", "--segment=2"}),
		join([]string{"--nodes=2", "--ntasks-per-node=1", "--mem=0", "--partition=cpu"}, common, where, []string{"--exclusive", "--time=248", "--segment=2"}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	p.Cluster = "a" // in a federation each part of the job names it
	for i, c := range components {
		if all := strings.Join(p.Directives(c, i == 0), " "); !strings.Contains(all, " --clusters=a") {
			t.Errorf("it may run elsewhere: %s", all)
		}
	}
}

// Equal workers without GPUs are Slurm's to place; whoever names nodes gets one on each.
func TestPlacedBySlurm(t *testing.T) {
	for name, c := range map[string]struct {
		slurm slurmspec.Group
		gpus  int
		want  []string
	}{
		"equal": {want: []string{"--ntasks=4", "--cpus-per-task=3", "--mem-per-cpu=342M"}},
		"nodes": {slurm: slurmspec.Group{Nodelist: "n[1-4]"}, want: []string{"--nodes=4", "--ntasks-per-node=1", "--cpus-per-task=3", "--mem=1024M"}},
		"GPUs":  {gpus: 2, want: []string{"--nodes=4", "--ntasks-per-node=1", "--cpus-per-task=3", "--mem=1024M"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := spec.NodeResources{CPUs: 3, GPUs: c.gpus, Memory: resource.MustParse("1Gi")}
			p := planFor(&spec.ClusterSpec{Sections: slurmspec.In(&slurmspec.Section{Group: c.slurm}), Workers: []spec.WorkerGroup{group("w", 4, r)}})
			if diff := cmp.Diff(c.want, p.Size(p.Components()[0])); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func join(parts ...[]string) (out []string) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// stepOf is the command of a step without container.
func stepOf(s *spec.ClusterSpec) string {
	step := planFor(s).step()
	return strings.Join(append(step.Argv, step.Command...), " ")
}

func TestStepOfUnlikeGroups(t *testing.T) {
	argv := stepOf(grpo())
	if !strings.HasPrefix(argv, "srun ") || !strings.Contains(argv, " --het-group=0,1,2 ") || !strings.HasSuffix(argv, "/keeper.pyz node $RAYCTL_RUN_DIR --slurm") {
		t.Errorf("step: %s", argv)
	}
	if alone := stepOf(&spec.ClusterSpec{}); strings.Contains(alone, "het-group") {
		t.Errorf("step of equal nodes: %s", alone)
	}
}

// What a container gets: what the file names, and what the run needs.
func TestContainer(t *testing.T) {
	evil := `--env=A='"$(id) ` + "`b`"
	s := &spec.ClusterSpec{
		Image: "ray.sqsh", Mounts: []spec.Mount{{MountPath: "/models", ReadOnly: true, Source: spec.MountSource{Sections: slurmspec.SourceIn("/lustre/models")}}},
		Job:      spec.Job{Entrypoint: "true", Cwd: "/home/u/p", OutputDir: "/lustre/out/{name}"},
		Sections: slurmspec.In(&slurmspec.Section{ContainerRuntime: "singularity", ContainerArgs: []string{evil}}),
		Workers:  []spec.WorkerGroup{group("w", 1, spec.NodeResources{GPUs: 1, GPUType: "mi300x", ObjectSpillingDirectory: "/disk"})},
	}
	want := &keeper.Container{
		Runtime: "singularity", Image: "ray.sqsh", Args: []string{"--rocm", evil},
		Binds: []keeper.Bind{{Source: "/s/runs/x", Target: "/s/runs/x"}, {Source: "/s/keeper/keeper-1", Target: "/s/keeper/keeper-1"},
			{Source: "/lustre/models", Target: "/models", ReadOnly: true}},
		Where: []string{"/home/u/p", "/lustre/out/x", "/disk"},
	}
	if diff := cmp.Diff(want, planFor(s).step().Container); diff != "" {
		t.Error(diff)
	}
	if p := planFor(&spec.ClusterSpec{}); p.step().Container != nil {
		t.Error("a container without containerRuntime")
	}
}

// The drivers of GPUs are brought by their vendor; unlike types get both.
func TestGPUFlags(t *testing.T) {
	types := map[string]spec.GPUType{
		"fast": {Sections: spec.Sections{slurmspec.Name: &slurmspec.GPUType{Gres: "mi250"}}}, "ours": {Sections: spec.Sections{slurmspec.Name: &slurmspec.GPUType{Vendor: "other"}}},
		"big": {AcceleratorType: "AMD-Instinct-MI300X-OAM"}, "mine": {Sections: spec.Sections{slurmspec.Name: &slurmspec.GPUType{Vendor: "nvidia", Gres: "mi999"}}},
	}
	for gpuTypes, want := range map[string]string{
		"": "--nv", "h100": "--nv", "mi300x": "--rocm", "MI210": "--rocm", "gfx942": "--rocm", "amd_mi100": "--rocm", "midrange": "--nv", "gami30": "--nv", "fast": "--rocm", "big": "--rocm",
		"ours": "", "mine": "--nv", "h100 mi300a": "--nv --rocm", "none": "",
	} {
		s := &spec.ClusterSpec{GPUTypes: types}
		for i, name := range strings.Split(gpuTypes, " ") {
			r := spec.NodeResources{GPUs: 1, GPUType: name}
			if name == "none" {
				r = spec.NodeResources{}
			}
			s.Workers = append(s.Workers, group("w"+string(rune('0'+i)), 1, r))
		}
		if got := strings.Join(planFor(s).gpuFlags(), " "); got != want {
			t.Errorf("%q gets %q, want %q", gpuTypes, got, want)
		}
	}
}

// What nodes run their programs by is one piece of bash, whatever the modules and setup are called; it runs setup only where Python is not there.
func TestHost(t *testing.T) {
	dir := t.TempDir()
	evil := `it's $(touch ` + dir + "/evil) `touch " + dir + "/evil`"
	for name, test := range map[string]struct {
		python, setup, said string
		modules             []string
	}{
		"plain":          {python: "python3"},
		"modules":        {python: "python3", modules: []string{evil, "b"}, said: "load|" + evil + "|b|"},
		"needs no setup": {python: "python3", setup: "exit 9"},
		"needs setup":    {python: "nosuchpython", setup: "export FROM_SETUP='" + strings.ReplaceAll(evil, "'", `'"'"'`) + "'\nsay() {\n  echo x\n}", said: evil},
	} {
		t.Run(name, func(t *testing.T) {
			p := planFor(&spec.ClusterSpec{Setup: test.setup, Sections: slurmspec.In(&slurmspec.Section{Modules: test.modules})})
			p.Python, p.Run = test.python, dir
			if err := os.WriteFile(filepath.Join(dir, HostFile), []byte("module() { for a; do LOADED=\"$LOADED$a|\"; done; export LOADED; echo noise; }\n"+p.Host()), 0o600); err != nil {
				t.Fatal(err)
			}
			argv := p.OnHost("sh", "-c", `printf %s "$LOADED$FROM_SETUP"`)
			out, err := exec.Command(argv[0], argv[1:]...).Output()
			if err != nil || string(out) != test.said {
				t.Errorf("%v: said %q, want %q", err, out, test.said)
			}
		})
	}
	if _, err := os.Stat(dir + "/evil"); err == nil {
		t.Error("a name was run")
	}
}

// Sizes that the file does not set are left to the node, which reads them from Slurm; a head of its own takes no tasks.
func TestGroups(t *testing.T) {
	exclusive := true
	p := planFor(&spec.ClusterSpec{
		Head: spec.Head{NodeResources: spec.NodeResources{CPUs: 4}},
		Workers: []spec.WorkerGroup{group("a", 2, spec.NodeResources{Sections: slurmspec.GroupIn(&slurmspec.Group{Exclusive: &exclusive})}), group("none", 0, spec.NodeResources{}), group("b", 1, spec.NodeResources{CPUs: 2, GPUs: 3,
			ObjectStoreMemory: resource.MustParse("1Gi"), ObjectSpillingDirectory: "/disk", Labels: map[string]string{"a": "b"}, Env: map[string]string{"C": "d"}})},
	})
	none, three, two, store := 0.0, 3.0, 2.0, int64(1<<30)
	want := []keeper.Group{
		{Name: "head", Count: 1, CPUs: &none, GPUs: &none}, {Name: "a", Count: 2, GPUs: &none}, {Name: "b", Count: 1, CPUs: &two, GPUs: &three,
			ObjectStoreMemory: &store, ObjectSpillingDirectory: "/disk", Labels: map[string]string{"a": "b"}, Env: map[string]string{"C": "d"}},
	}
	if diff := cmp.Diff(want, p.Orders().Groups); diff != "" {
		t.Error(diff)
	}
}

// hostileSpec has values that shells like to run.
func hostileSpec() *spec.ClusterSpec {
	evil := `a'b"c $(touch /tmp/evil) ` + "`id`" + ` #x; exit 9`
	s := grpo()
	slurmspec.Of(s).Account, slurmspec.Of(s).Constraint, slurmspec.Of(s).ExtraArgs = evil, evil, []string{"--mail-user=" + evil}
	return s
}

func TestScriptIsOneCommand(t *testing.T) {
	for name, s := range map[string]*spec.ClusterSpec{"plain": {}, "grpo": grpo(), "hostile": hostileSpec()} {
		t.Run(name, func(t *testing.T) {
			p := planFor(s)
			p.Run = "/s/it's $(id)/x"
			text, err := p.Script()
			if err != nil {
				t.Fatal(err)
			}
			file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "slurm.sh")
			if err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			if len(file.Stmts) != 4 {
				t.Errorf("the script has %d statements, not two for umask, export and exec:\n%s", len(file.Stmts), text)
			}
			if bash := exec.Command("bash", "-n"); true {
				bash.Stdin = strings.NewReader(text)
				if out, err := bash.CombinedOutput(); err != nil {
					t.Errorf("bash -n: %v: %s", err, out)
				}
			}
		})
	}
}

func TestScriptPassesShellcheck(t *testing.T) {
	shellcheck := needs.Program(t, "shellcheck", "shellcheck")
	text, err := planFor(grpo()).Script()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "slurm.sh")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(shellcheck, name).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestLinesInValuesAreRefused(t *testing.T) {
	s := &spec.ClusterSpec{Sections: slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{Account: "a\n#SBATCH --uid=0"}})}
	if _, err := planFor(s).Script(); err == nil {
		t.Error("a value with a line break was rendered")
	}
}

// TestCompanions: a further node of an elastic group asks for what the group's nodes ask for, in a job of its own.
func TestCompanions(t *testing.T) {
	s := spec.For(&spec.ClusterSpec{Name: "c", Workers: []spec.WorkerGroup{
		group("a", 1, spec.NodeResources{CPUs: 2}), {Name: "b", MinReplicas: new(int), MaxReplicas: ptrTo(3), NodeResources: spec.NodeResources{CPUs: 4, GPUs: 2}},
	}}, slurmspec.Name)
	p := planFor(s)
	if n := p.Components(); len(n) != 1 || n[0].Nodes != 1 {
		t.Errorf("the job itself: %+v", n)
	}
	scripts, err := p.Companions()
	if err != nil || len(scripts) != 2 {
		t.Fatalf("%v, %v", scripts, err)
	}
	text := scripts["elastic-b.sh"]
	for _, want := range []string{"#SBATCH --nodes=1\n", "#SBATCH --gpus-per-node=2\n", "#SBATCH --cpus-per-task=4\n", ` slurm-companion `, `"$@"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "--job-name") || strings.Contains(text, "--comment") || p.Orders().Start.Companions.Commented {
		t.Errorf("the keeper names it, and gives it a comment:\n%s", text)
	}
	slurmspec.Of(p.Spec).Comment, slurmspec.Of(p.Spec).ExtraArgs = "for 7", []string{"--licenses=a:1"}
	if scripts, err = p.Companions(); err != nil || !p.Orders().Start.Companions.Commented {
		t.Fatalf("the keeper replaces the comment of the file, %v", err)
	}
	for _, want := range []string{"#SBATCH --comment='for 7'\n", "#SBATCH --licenses=a:1\n"} {
		if text := scripts["elastic-b.sh"]; !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if o := p.Orders(); o.Start.Companions == nil || o.Start.Companions.Scripts["b"] != p.Run+"/elastic-b.sh" || o.Groups[1].Count != 0 || o.Groups[1].Max != 3 {
		t.Errorf("%+v", o)
	}
}

// TestCompanionsUnlikeTheJob: the job's equal workers may share nodes, the group's node with GPUs is one for itself all the same.
func TestCompanionsUnlikeTheJob(t *testing.T) {
	own := true
	s := spec.For(&spec.ClusterSpec{Name: "c", Head: spec.Head{On: "a"}, Workers: []spec.WorkerGroup{
		group("a", 2, spec.NodeResources{CPUs: 2}), {Name: "b", MinReplicas: new(int), MaxReplicas: ptrTo(3), NodeResources: spec.NodeResources{
			CPUs: 4, GPUs: 2, Sections: slurmspec.GroupIn(&slurmspec.Group{Exclusive: &own}),
		}},
	}}, slurmspec.Name)
	scripts, err := planFor(s).Companions()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"#SBATCH --nodes=1\n", "#SBATCH --mem=0\n", "#SBATCH --gpus-per-node=2\n"} {
		if text := scripts["elastic-b.sh"]; !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// TestEarlyHead: the job holds the head alone; the gang's asks for the rest, each component by the name that all are found by.
func TestEarlyHead(t *testing.T) {
	s := grpo()
	s.Head = spec.Head{Early: true, NodeResources: spec.NodeResources{CPUs: 2, Sections: slurmspec.GroupIn(&slurmspec.Group{Partition: "io"})}}
	slurmspec.Of(s).ExtraArgs = []string{"--licenses=a:1"}
	p := planFor(spec.For(s, slurmspec.Name))
	main, err := p.Script()
	if err != nil || strings.Contains(main, "hetjob") || !strings.Contains(main, "#SBATCH --partition=io\n") || strings.Contains(main, "--licenses") {
		t.Errorf("%v in\n%s", err, main)
	}
	scripts, err := p.Companions()
	gang := scripts[GangFile]
	if err != nil || len(scripts) != 1 || strings.Contains(gang, "=io") {
		t.Fatalf("%v in %v", err, scripts)
	}
	parts := len(p.Gang())
	for text, times := range map[string]int{
		"#SBATCH hetjob\n": parts - 1, "#SBATCH --job-name=x-workers-N\n": parts, "#SBATCH --no-requeue\n": parts, "#SBATCH --comment='rayctl gang of x'\n": 1,
		"#SBATCH --licenses=a:1\n": 1, "--time=": parts * strings.Count(main, "--time="), "#SBATCH --signal=B:USR1@": 1,
	} {
		if n := strings.Count(gang, text); n != times {
			t.Errorf("%q is %d times, not %d, in\n%s", text, n, times, gang)
		}
	}
	o := p.Orders()
	if !o.Start.Early || o.Start.Companions == nil || o.Start.Companions.Scripts[keeper.Gang] != p.Run+"/"+GangFile || strings.Contains(strings.Join(o.Start.Argv, " "), "het-group") {
		t.Errorf("%+v", o.Start)
	}
}

func ptrTo(n int) *int { return &n }
