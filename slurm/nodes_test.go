//go:build linux

package slurm_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestNodes is about what Ray and its workers find on the nodes.
func TestNodes(t *testing.T) {
	pace.Parallel(t)
	needs.Program(t, "envml", "environment-modules")
	settings, scratch := scratchOfJobs(t)
	b := newBed(t, slurmtest.Options{Nodes: 2, GPUs: []slurmtest.GPU{{Type: "h100", Count: 4}}, Etc: []string{modulesPath}, Settings: settings, Binds: []string{filepath.Dir(scratch)}})
	image, path := b.AddContainers(t, b.rays...)
	b.Env = append(b.Env, "PATH="+path, "BASH_ENV="+b.modules(t), "LD_LIBRARY_PATH=/opt/login/lib", "SECRET_OF_THE_LOGIN=x", "SLURM_NTASKS=77", "RAY_ADDRESS=elsewhere:1")
	t.Run("Granted", func(t *testing.T) { b.granted(t, image) })
	t.Run("Placed", func(t *testing.T) { b.placed(t, scratch) })
	t.Run("IdleGPUs", b.idleGPUs)
	t.Run("In_pyxis", func(t *testing.T) { b.inContainer(t, "pyxis", image) })
	t.Run("In_singularity", func(t *testing.T) { b.inContainer(t, "singularity", image) })
	b.leavesNothing(t)
}

// scratchOfJobs are settings of a site that gives each job a directory of its own on the nodes, which TMPDIR names, while the flag is there.
func scratchOfJobs(t *testing.T) (settings map[string]string, flag string) {
	t.Helper()
	dir := t.TempDir()
	flag, settings = filepath.Join(dir, "flag"), map[string]string{"TaskProlog": filepath.Join(dir, "prolog"), "Epilog": filepath.Join(dir, "epilog")}
	const of = "/tmp/of-job-$SLURM_JOB_ID"
	for setting, text := range map[string]string{
		"TaskProlog": "[ ! -e " + flag + " ] || { mkdir -p " + of + " && echo export TMPDIR=" + of + "; }", "Epilog": "exec /bin/rm -rf " + of,
	} {
		if err := os.WriteFile(settings[setting], []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return settings, flag
}

// modulesPath lists the directories of a site's modules. Debian's package environment-modules defines the function in /etc/profile.d, as RHEL's does.
const modulesPath = "/etc/environment-modules/modulespath"

// modules makes a module function, whose singularity has the runtime and a Python that finds its library only by LD_LIBRARY_PATH, as one that was
// configured with --enable-shared, and prints ld.so's error without it. It returns the file that defines it.
func (b *bed) modules(t *testing.T) string {
	dir := filepath.Join(b.Cluster.Dir, "shared", "modules")
	define := `module() {
	export LOADED="$LOADED$* "
	case "$*" in *singularity*) export PATH="` + dir + `/bin:$PATH" LD_LIBRARY_PATH="` + dir + `/lib" ;; esac
	echo Loading "$@"
}
`
	python := `#!/bin/sh
case ":$LD_LIBRARY_PATH:" in *:` + dir + `/lib:*) exec python3 "$@" ;; esac
echo "$0: error while loading shared libraries: libpython3.11.so.1.0: cannot open shared object file: No such file or directory" >&2
exit 127
`
	for name, text := range map[string]string{"/define.sh": define, "/bin/site-python": python} {
		if err := os.WriteFile(dir+name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir + "/define.sh"
}

// granted: on unlike nodes Ray has what Slurm gave, no more and no less, and workers see their GPUs, what setup, modules and the file
// gave them, and of Slurm the job alone. Each node is in a container.
func (b *bed) granted(t *testing.T, image string) {
	exclusive := true
	part := smallNode()
	part.CPUs, part.GPUs, part.GPUType = 3, 2, "h100"
	part.Labels = map[string]string{"zone": "a"}
	part.Env = map[string]string{"FROM_GROUP": "it's $(id)", "FROM_FILE": "the group's"}
	whole := spec.NodeResources{GPUs: 4, GPUType: "h100", Sections: slurmspec.GroupIn(&slurmspec.Group{Exclusive: &exclusive})}
	s := &spec.ClusterSpec{
		Name: "granted", Ray: spec.Ray{Python: b.python}, Image: image,
		Env: map[string]string{"FROM_FILE": "it's $(id) \"quoted\""}, Setup: "export FROM_SETUP=yes; ulimit -Sn 4321",
		Sections: slurmspec.In(&slurmspec.Section{ContainerRuntime: "apptainer", Modules: []string{"cuda/12 $(id)"}}),
		Workers:  []spec.WorkerGroup{{Name: "part", NodeResources: part}, {Name: "whole", NodeResources: whole}},
	}
	s.Job.Entrypoint = "python -c " + shellescape.Quote(lookAround)
	s.Job.Env = map[string]string{"FROM_JOB": "yes"}
	found := b.look(t, s)
	for name, want := range map[string]around{
		"part-0":  {CPU: 3, GPU: 2, H100: 1, Zone: "a", MiB: 1024, Files: 4321, Env: map[string]string{"CUDA_VISIBLE_DEVICES": "0,1"}},
		"whole-0": {CPU: 16, GPU: 4, H100: 1, Files: 4321, Env: map[string]string{"CUDA_VISIBLE_DEVICES": "0,1,2,3"}}, // its memory is the machine's
	} {
		got := found[name]
		got.Env["CUDA_VISIBLE_DEVICES"] = sorted(got.Env["CUDA_VISIBLE_DEVICES"])
		if got.H100 != want.H100 || got.Zone != want.Zone {
			t.Errorf("%s has %v of accelerator_type:H100, zone %q, want %+v", name, got.H100, got.Zone, want)
		}
		if got.CPU != want.CPU || got.GPU != want.GPU || want.MiB != 0 && got.MiB != want.MiB || got.Files != want.Files {
			t.Errorf("%s has %v CPUs, %v GPUs, %d MiB, %d files, want %+v", name, got.CPU, got.GPU, got.MiB, got.Files, want)
		}
		want.Env["FROM_GROUP"], want.Env["FROM_FILE"] = "", s.Env["FROM_FILE"]
		if name == "part-0" {
			want.Env["FROM_GROUP"], want.Env["FROM_FILE"] = part.Env["FROM_GROUP"], part.Env["FROM_FILE"]
		}
		want.Env["FROM_SETUP"], want.Env["FROM_JOB"] = "yes", "yes"
		want.Env["LOADED"], want.Env["APPTAINER_CONTAINER"] = "load cuda/12 $(id) ", image
		want.Env["CONTAINER_PROGRAM"], want.Env["CONTAINER_OPTIONS"] = "apptainer", "--nv"
		for k, v := range want.Env {
			if got.Env[k] != v {
				t.Errorf("%s of a task on %s is %q, want %q", k, name, got.Env[k], v)
			}
		}
	}
	for where, f := range found {
		for k, v := range f.Env {
			slurms := strings.HasPrefix(k, "SLURM") || strings.HasPrefix(k, "SRUN") || strings.HasPrefix(k, "PMI")
			if slurms && k != "SLURM_CONF" && k != "SLURM_JOB_ID" || k == "SECRET_OF_THE_LOGIN" || k == "RAY_ADDRESS" && v == "elsewhere:1" {
				t.Errorf("%s=%s leaked to %s", k, v, where)
			}
		}
	}
}

// lookAround prints, as JSON, what Ray has on each node and the environment of a task there that has all its GPUs.
const lookAround = `import json, os, resource, socket, time, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
@ray.remote(num_cpus=0)
def look():
    return dict(os.environ), resource.getrlimit(resource.RLIMIT_NOFILE)[0], socket.gethostname()
ray.init(log_to_driver=False, logging_level="ERROR")
while len(ray.nodes()) < int(os.environ.get("LOOK_AT", 1)):
    time.sleep(0.2)
found = {"driver": {"Env": dict(os.environ), "Cwd": os.getcwd(), "Seen": [p for p in os.environ.get("LOOK_FOR", "").split() if os.path.exists(p)]}}
for node in ray.nodes():
    r = node["Resources"]
    env, files, host = ray.get(look.options(num_gpus=r.get("GPU", 0), scheduling_strategy=On(node["NodeID"], soft=False)).remote())
    found[node["NodeName"]] = {"CPU": r.get("CPU", 0), "GPU": r.get("GPU", 0), "MiB": int(r["memory"]) >> 20, "Files": files, "Host": host, "Env": env,
        "H100": r.get("accelerator_type:H100", 0), "Zone": node["Labels"].get("zone", "")}
print(json.dumps(found))`

// look runs lookAround in a cluster.
func (b *bed) look(t *testing.T, s *spec.ClusterSpec) map[string]around {
	t.Helper()
	r := b.begin(t, s, launcher.Payload{})
	r.ended(0, "succeeded", "")
	found := map[string]around{}
	text := r.out.Bytes()
	if err := json.Unmarshal(text[max(0, bytes.Index(text, []byte(`{"driver"`))):], &found); err != nil { // Ray may warn before of nodes that it does not see yet
		t.Fatalf("%v in %q", err, r.out.String())
	}
	r.forgotten()
	return found
}

// around is what lookAround prints of one node.
type around struct {
	CPU, GPU   float64
	H100       float64
	Zone       string
	MiB, Files int
	Host       string
	Env        map[string]string
	Cwd        string   // of the driver
	Seen       []string // by the driver, of the paths in LOOK_FOR
}

// sorted puts numbers with commas between them into their order: Ray hands GPUs out in any.
func sorted(list string) string {
	parts := strings.Split(list, ",")
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// placed: three equal workers on two nodes of which each has room for two, each as large as it was asked for. Its keeper's Python comes with a module of the site,
// and Ray's files are where the site puts those of jobs.
func (b *bed) placed(t *testing.T, scratch string) {
	if err := os.WriteFile(scratch, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(scratch)
	module, user := b.realModules(t)
	r := smallNode()
	r.CPUs = 6
	three := 3
	s := &spec.ClusterSpec{Name: "placed", Ray: spec.Ray{Python: b.python}, Workers: []spec.WorkerGroup{{Name: "w", Replicas: &three, NodeResources: r}}}
	s.Sections = slurmspec.In(&slurmspec.Section{Python: "site-python", Modules: []string{module}, TmpDir: "$TMPDIR"})
	s.Job.Entrypoint = "python -c " + shellescape.Quote(lookAround)
	if bad := failing(user.launcher().Check(t.Context(), s)); len(bad) > 0 {
		t.Errorf("doctor finds %q", bad)
	}
	found := user.look(t, s)
	ofJob := regexp.MustCompile(`^/tmp/of-job-\d+/r\w{8}$`)
	libraries := b.Cluster.Dir + "/shared/modules/lib:/opt/login/lib"
	hosts := map[string]int{}
	for name, n := range found {
		if n.Env["LD_LIBRARY_PATH"] != libraries || n.Env["SITE_MODULE"] != module {
			t.Errorf("%s has libraries in %q, want %q, and module %q", name, n.Env["LD_LIBRARY_PATH"], libraries, n.Env["SITE_MODULE"])
		}
		if dir := n.Env["RAYCTL_NODE_DIR"]; !ofJob.MatchString(dir) || n.Env["TMPDIR"] != filepath.Dir(dir) {
			t.Errorf("%s is in %s, and its TMPDIR is %q", name, dir, n.Env["TMPDIR"])
		}
		if name == "driver" {
			continue
		}
		hosts[n.Host]++
		if n.CPU != 6 || n.MiB != 1024 {
			t.Errorf("%s has %v CPUs, %d MiB", name, n.CPU, n.MiB)
		}
	}
	if len(found) != 4 || len(hosts) != 2 {
		t.Errorf("%d workers, on %v", len(found)-1, hosts)
	}
}

// realModules gives the site a module of environment-modules that brings the same Python, and returns its name and the bed of a user whose jobs have the function
// by /etc/profile alone.
func (b *bed) realModules(t *testing.T) (name string, user *bed) {
	t.Helper()
	dir := filepath.Join(b.Cluster.Dir, "shared", "modules")
	file := filepath.Join(dir, "files", "site-python", "3.11")
	text := "#%Module1.0\nprepend-path PATH {" + dir + "/bin}\nprepend-path LD_LIBRARY_PATH {" + dir + "/lib}\nsetenv SITE_MODULE [module-info name]\n"
	err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644), b.Change(modulesPath, dir+"/files\n"))
	if err != nil {
		t.Fatal(err)
	}
	other := *b
	other.Env = slices.DeleteFunc(slices.Clone(b.Env), func(v string) bool { return strings.HasPrefix(v, "BASH_ENV=") })
	return "site-python/3.11", &other
}

// idleGPUs: GPUs of nodes that do nothing end a run, those that Slurm has not given to it do not count. nvidia-smi is a stand-in that prints what
// `nvidia-smi --help-query-gpu` describes: this machine has no GPU.
func (b *bed) idleGPUs(t *testing.T) {
	dir := filepath.Join(b.Cluster.Dir, "shared", "smi")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nprintf 'GPU-%s, %s\\n' a 0 b 1 c 100 d 97\n"
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	with := *b
	with.Env = slices.Clone(b.Env)
	for i, kv := range with.Env {
		if path, found := strings.CutPrefix(kv, "PATH="); found {
			with.Env[i] = "PATH=" + dir + ":" + path
		}
	}
	s := b.twoGroups()
	s.Name, s.Job.Entrypoint, s.Lifetime.IdleGPU = "wastes", "sleep 100000", units.Limit(10*time.Second)
	for i := range s.Workers {
		s.Workers[i].GPUs, s.Workers[i].GPUType = 2, "h100"
	}
	r := with.begin(t, s, launcher.Payload{})
	r.ended(runstate.CodeGPUsIdle, runstate.CauseIdleGPU, "all GPUs did nothing for 10s (lifetime.idleGpu)")
	result, err := r.l.Result(t.Context(), r.id)
	if err != nil {
		t.Fatal(err)
	}
	receipt := launcher.NewReceipt(result)
	if u := receipt.Usage; len(receipt.GPUs) != 2 || u.MeasuredGPUSeconds < 30 || u.MeasuredBusyGPUSeconds > u.MeasuredGPUSeconds/50 {
		t.Errorf("%+v, %+v", receipt.GPUs, u)
	}
	for _, g := range receipt.GPUs {
		if g.Count != 2 || g.Message != "" {
			t.Errorf("%+v", g)
		}
	}
	r.forgotten()
}

// inContainer: the same node, whatever carries it. It sees what the run needs and what the file names, at the paths of the nodes, and nothing else.
func (b *bed) inContainer(t *testing.T, runtime, image string) {
	shared := filepath.Join(b.Cluster.Dir, "shared", runtime)
	project, results, hf, secret, models := shared+"/project", shared+"/results", shared+"/hf", shared+"/secret", shared+"/models"
	for _, dir := range []string{project, hf, secret, models} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range []int{1, 2} {
		if _, err := b.Exec(t.Context(), node, "mkdir /tmp/disk"); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := b.Exec(t.Context(), node, "rmdir /tmp/disk"); err != nil { // which is empty again
				t.Error(err)
			}
		}()
	}
	s := b.named("in-"+runtime, `echo kept >"$RAYCTL_OUTPUT_DIR/file"; echo it >"$HF_HOME/model"; touch /models/mine 2>/dev/null && echo written; python -c `+shellescape.Quote(lookAround))
	s.Mounts = []spec.Mount{{MountPath: "/models", ReadOnly: true, Source: spec.MountSource{Sections: slurmspec.SourceIn(models)}}}
	arg := "--container-mount-home"
	if runtime == "singularity" {
		arg = "--env=HOSTILE='\"$(touch " + project + "/evil) $HOME"
	}
	s.Image, s.Job.Cwd, s.Job.OutputDir = image, project, results+"/{name}"
	mib := 1024
	s.Head.NodeResources, s.Workers = smallNode(), []spec.WorkerGroup{companion()}
	if runtime == "pyxis" { // without memory in the file it has what the job got, less 0.3 for the object store
		mib = 4*100 - 4*100*3/10 // DefMemPerCPU of the testbed
		s.Head.NodeResources = spec.NodeResources{CPUs: 4}
	}
	section := &slurmspec.Section{ContainerRuntime: runtime, ContainerArgs: []string{arg}, TmpDir: "/tmp/disk"}
	if s.Sections = slurmspec.In(section); runtime == "pyxis" {
		section.Modules = []string{"cuda/12"}
	} else {
		section.Python, section.TmpDir = "site-python", "/tmp/disk/$USER/j${SLURM_JOB_ID}" // which the node makes, and removes
		if bad := failing(b.launcher().Check(t.Context(), s)); len(bad) != 1 || !strings.HasPrefix(bad[0], "python on node") {
			t.Errorf("without its module doctor finds %q", bad)
		}
		section.Modules = []string{"singularity"}
	}
	b.doctorOfContainer(t, s)
	s.Env = map[string]string{"HF_HOME": hf, "LOOK_AT": strconv.Itoa(1 + len(s.Workers)), "LOOK_FOR": strings.Join([]string{project, hf, secret, models, "/models", "/tmp/disk", b.Home("")}, " ")}
	found := b.look(t, s)
	got, driver := found["head-0"], found["driver"]
	of, container, module := found["w-0"], "PYXIS_IMAGE", "load cuda/12 "
	if runtime == "singularity" {
		container, module = "SINGULARITY_CONTAINER", "load singularity "
	}
	if of.GPU != 1 || of.H100 != 1 || of.CPU != 1 || of.Env[container] != image || !strings.HasPrefix(of.Env["LOADED"], module) {
		t.Errorf("a node with a job of its own: %+v", of)
	}
	program, seen := got.Env["PYXIS_IMAGE"], []string{project, hf, "/models", "/tmp/disk", b.Home("")}
	if runtime == "singularity" {
		program, seen = got.Env["SINGULARITY_CONTAINER"], seen[:4]
		if got.Env["CONTAINER_PROGRAM"] != runtime || got.Env["HOSTILE"] != `'"$(touch `+project+`/evil) $HOME` {
			t.Errorf("it was %q, with HOSTILE=%q", got.Env["CONTAINER_PROGRAM"], got.Env["HOSTILE"])
		}
	}
	directory := regexp.MustCompile(`^/tmp/disk/r\w{8}$`)
	if runtime == "singularity" {
		directory = regexp.MustCompile(`^/tmp/disk/` + regexp.QuoteMeta(b.User()) + `/j\d+/r\w{8}$`)
	}
	if got.CPU != 0 || got.MiB != mib || got.GPU != 0 || program != image || !directory.MatchString(got.Env["RAYCTL_NODE_DIR"]) {
		t.Errorf("%v CPUs, %d MiB, %v GPUs, image %q, in %s", got.CPU, got.MiB, got.GPU, program, got.Env["RAYCTL_NODE_DIR"])
	}
	if driver.Cwd != project || !slices.Equal(driver.Seen, seen) {
		t.Errorf("the driver is in %s and sees %q, want %s and %q", driver.Cwd, driver.Seen, project, seen)
	}
	for file, want := range map[string]string{results + "/in-" + runtime + "/file": "kept\n", hf + "/model": "it\n"} {
		if text, err := os.ReadFile(file); string(text) != want {
			t.Errorf("%s on the node has %q (%v)", file, text, err)
		}
	}
	if _, err := os.Stat(project + "/evil"); err == nil {
		t.Error("an argument was run")
	}
}

// companion is a group whose only node has a job of its own, with all that the cluster's has.
func companion() spec.WorkerGroup {
	none, one := 0, 1
	g := spec.WorkerGroup{Name: "w", Replicas: &one, MinReplicas: &none, MaxReplicas: &one, NodeResources: smallNode()}
	g.GPUs, g.GPUType = 1, "h100"
	return g
}

// doctorOfContainer: doctor starts the container as the job does, imports Ray in it, and finds a missing image and a missing mount before a launch.
func (b *bed) doctorOfContainer(t *testing.T, s *spec.ClusterSpec) {
	t.Helper()
	image, mounts := s.Image, s.Mounts
	for _, test := range []struct {
		change func()
		finds  string // the check that fails, "" none
		says   string
	}{
		{change: func() {}, says: "2.60.0"},
		{change: func() { s.Image += ".missing" }, finds: "container on node", says: image + ".missing"},
		{change: func() {
			s.Mounts = []spec.Mount{{MountPath: "/models", Source: spec.MountSource{Sections: slurmspec.SourceIn("/no/models")}}}
		}, finds: "container on node", says: "/no/models"},
	} {
		test.change()
		checks := b.launcher().Check(t.Context(), s)
		said := false
		for _, c := range checks {
			said = said || strings.Contains(c.Detail, test.says) && c.OK == (test.finds == "") && strings.HasPrefix(c.Name, cmp.Or(test.finds, "Ray on node"))
		}
		if bad := failing(checks); !said || test.finds == "" && len(bad) > 0 || test.finds != "" && (len(bad) != 1 || !strings.HasPrefix(bad[0], test.finds)) {
			t.Errorf("doctor finds %q, want %s with %q: %+v", bad, test.finds, test.says, checks)
		}
		s.Image, s.Mounts = image, mounts
	}
}
