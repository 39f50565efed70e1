package spec_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/spec"
)

func TestValidate(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"name too long", "name: " + strings.Repeat("a", 41), "is longer than 40 characters"},
		{"name", "name: My_Cluster", `name: "My_Cluster" is not a DNS label: use at most 40`},
		{"hostile name", "name: 'a; rm -rf $(x)'", "is not a DNS label"},
		{"newline in a name", "name: \"a\\nb\"", `name: "a\nb" is not a DNS label`},
		{"version", "apiVersion: rayctl/v2", `apiVersion: "rayctl/v2" is not possible here`},
		{"launcher", "launcher: k8s", `launcher: "k8s" is not possible here: did you mean kuberay?`},
		{"launcher", "launcher: pbs", `launcher: "pbs" is not possible here: use slurm, kuberay, local`},
		{"both sections", "slurm: {}\nkuberay: {}", "both slurm and kuberay are configured"},
		{"ray version", "ray: {version: latest}", `ray.version: "latest" is not a version of Ray: write it like 2.60.0`},
		{"label", "labels: {'a b': x}", `"a b" is not a label's key`},
		{"label value", "labels: {a: 'x y'}", `labels.a: "x y" is not a label's value`},
		{"control character", "slurm: {partition: \"gpu\\n#SBATCH --wrap=x\"}", "slurm.partition: remove it" /* see below */},
		{"null character", "setup: \"a\\0b\"", "setup"},
		{"group name", "workers: [{name: A}]", `workers.A.name: "A" is not a DNS label`},
		{"group without name", "workers: [{name: ''}]", "workers[0].name: a name is missing"},
		{"group called head", "workers: [{name: head}]", "is the name of the head's own node"},
		{"same group", "workers: [{name: a}, {name: a}]", "workers.a: there are two groups of this name"},
		{"negative", "workers: [{name: a, replicas: -1}]", "workers.a.replicas: -1 is negative"},
		{"min", "workers: [{name: a, replicas: 1, minReplicas: 2}]", "workers.a.minReplicas: 2 is more than replicas, 1"},
		{"max", "workers: [{name: a, replicas: 3, maxReplicas: 2}]", "workers.a.maxReplicas: 2 is less than replicas, 3"},
		{"no node", "launcher: local\nhead: {on: a}\nworkers: [{name: a, replicas: 0}]", "workers: the cluster has no node"},
		{"a thousandth of a CPU", "workers: [{name: a, cpus: 1m}]", "workers.a.cpus: 0.001 of a CPU is too little for Ray: write whole CPUs like 4, or 500m for a half"},
		{"negative gpus", "workers: [{name: a, gpus: -1}]", "workers.a.gpus: -1 is negative"},
		{"type without gpus", "workers: [{name: a, gpuType: h100}]", "a GPU type is given for nodes without GPUs"},
		{"shm", "workers: [{name: a, memory: 1Gi, shm: 2Gi}]", "workers.a.shm: 2Gi is more than memory, 1Gi"},
		{"custom resource", "workers: [{name: a, resources: {GPU: 1}}]", `"GPU" is not a custom resource of Ray: use cpus, gpus, memory, objectStoreMemory or shm`},
		{"store without a unit", "workers: [{name: a, objectStoreMemory: 16}]", "workers.a.objectStoreMemory: 16 is less than the 75Mi that Ray needs for an object store: write it with a unit"},
		{"store and memory", "head: {memory: 1Gi, objectStoreMemory: 1Gi}", "head.objectStoreMemory: 1Gi leaves nothing of memory, 1Gi, to Ray's processes: lower it or raise memory"},
		{"store and shm", "workers: [{name: a, shm: 1Gi, objectStoreMemory: 2Gi}]", "workers.a.objectStoreMemory: 2Gi is more than shm, 1Gi: the object store is in /dev/shm"},
		{"spilling", "workers: [{name: a, objectSpillingDirectory: here}]", `workers.a.objectSpillingDirectory: "here" is not an absolute path: write it from /`},
		{"spilling and an old Ray", "ray: {version: 2.40.0}\nhead: {objectSpillingDirectory: /d}", "head.objectSpillingDirectory: Ray 2.40.0 cannot be given it: set local.tmpDir or slurm.tmpDir"},
		{"labels and an old Ray", "ray: {version: 2.9.3}\nworkers: [{name: a, labels: {a: b}}]", "workers.a.labels: Ray 2.9.3 has no labels of nodes: use resources"},
		{"node label", "workers: [{name: a, labels: {'a,b': c}}]", `workers.a.labels.a,b: "a,b" is not a label's key`},
		{"node label's value", "head: {labels: {a: 'b=c,d'}}", `head.labels.a: "b=c,d" is not a label's value`},
		{"Ray's label", "workers: [{name: a, labels: {ray.io/node-id: x}}]", "keys that begin with ray.io/ are Ray's own"},
		{"our label", "workers: [{name: a, labels: {rayctl.io/group: x}}]", "keys that begin with rayctl.io/ are rayctl's own"},
		{"group's variable", "workers: [{name: a, env: {RAY_ADDRESS: x}}]", `workers.a.env.RAY_ADDRESS: "RAY_ADDRESS" is set by rayctl: leave it out; drivers find their cluster`},
		{"head's variable", "head: {env: {RAY_OVERRIDE_LABELS: '{}'}}", "use labels of the head or of a worker group"},
		{"secret in a group's env", "workers: [{name: a, env: {A: x}}]\nsecrets: [A]", "secrets[0]: A is a secret and also in workers.a.env: keep it in secrets only"},
		{"negative resource", "workers: [{name: a, resources: {x: -1}}]", "workers.a.resources.x: -1 is negative"},
		{"head on nothing", "head: {on: a}", `head.on: there is no worker group "a": remove head.on`},
		{"head on another", "head: {on: a}\nworkers: [{name: b}]", "name one of the groups: b; or write head, for a node of its own"},
		{"head and resources", "head: {on: a, cpus: 2}\nworkers: [{name: a}]", "it can have none of its own"},
		{"head on none", "head: {on: a}\nworkers: [{name: a, replicas: 2, minReplicas: 0}]", "workers.a: the head is on the first worker of group \"a\", which may have no workers: write `head: {on: head}`"},
		{"early head on a group", "launcher: slurm\nhead: {on: a, early: true}\nworkers: [{name: a}]", "head.early: the head is on group \"a\" and starts with it: remove head.on"},
		{"early head alone", "launcher: local\nhead: {early: true}\nworkers: [{name: a, minReplicas: 0}]", "head.early: no worker is required"},
		{"early head of a launcher without", "launcher: example\nhead: {early: true}\nworkers: [{name: a}]", "head.early: the example launcher starts the head together with the workers: leave it out"},
		{"start with a head that is not early", "job: {start: head}", "job.start: without an early head the driver starts only when all nodes are there: set head.early: true"},
		{"start", "job: {start: now}", `job.start: "now" is not possible here`},
		{"ranks of a group that is not there", "job: {launch: {groups: [trainr]}}\nworkers: [{name: trainer}]", `job.launch.groups: there is no group "trainr": did you mean "trainer"?`},
		{"ranks of a group twice", "job: {launch: {groups: [a, a]}}\nworkers: [{name: a}]", "job.launch.groups: the group a is given twice"},
		{"ranks of a group without a required node", "head: {on: head}\njob: {launch: {groups: [a]}}\nworkers: [{name: a, minReplicas: 0, maxReplicas: 2}]", "job.launch.groups: the group a has no required node"},
		{"ranks of no required node", "head: {on: head}\njob: {launch: {perNode: 1}}\nworkers: [{name: a, minReplicas: 0, maxReplicas: 2}]", "job.launch.perNode: the cluster has no required node that runs work"},
		{"ranks for GPUs that are not there", "job: {launch: {perNode: gpu}}\nworkers: [{name: a}]", "job.launch.perNode: the cluster has no required node that runs work and has a GPU"},
		{"ranks before the nodes are there", "launcher: slurm\nhead: {early: true}\njob: {start: head, launch: {perNode: 1}}\nworkers: [{name: a}]", "job.start: a command that runs on every node (job.launch) begins when all required nodes are there: leave it out"},
		{"env name", "env: {'A B': x}", `"A B" is not the name of an environment variable`},
		{"env injection", "job: {env: {\"A=$(id)\\n\": x}}", "is not the name of an environment variable"},
		{"reserved", "job: {env: {RAYCTL_ATTEMPT: x}}", `job.env.RAYCTL_ATTEMPT: "RAYCTL_ATTEMPT" begins with RAYCTL_`},
		{"owned", "env: {RAY_AUTH_MODE: disabled}", `"RAY_AUTH_MODE" is set by rayctl`},
		{"secret in env", "env: {A: x}\nsecrets: [A]", "secrets[0]: A is a secret and also in env"},
		{"secret twice", "secrets: [A, A]", "the secret A is given twice"},
		{"secret name", "secrets: ['A-B']", `secrets[0]: "A-B" is not the name`},
		{"secret's two sources", "secrets: [{name: A, file: /f, secretKeyRef: {name: a, key: b}}]", "has both file and secretKeyRef"},
		{"secret reference elsewhere", "launcher: slurm\nsecrets: [{name: A, secretKeyRef: {name: a, key: b}}]", "only possible on KubeRay"},
		{"mount", "mounts: [{mountPath: rel, source: {}}]", `mounts[0].mountPath: "rel" is not an absolute path`},
		{"mount root", "mounts: [{mountPath: /, source: {}}]", "the root directory cannot be mounted over"},
		{"mount twice", "mounts: [{mountPath: /a, source: {}}, {mountPath: /a/, source: {}}]", "mounts[1].mountPath: /a is mounted twice"},
		{"no source", "launcher: local\nmounts: [{mountPath: /a, source: {slurm: /b}}]", "mounts[0].source: it has no source for the local launcher: add source.local"},
		{"max and total", "lifetime: {max: 2d, total: 1d}", "lifetime.max: 2d is longer than lifetime.total, 1d"},
		{"queue and total", "lifetime: {queue: 2d, total: 1d}", "lifetime.queue: 2d is longer"},
		{"output without a unit", "lifetime: {keepOutput: 8}", "lifetime.keepOutput: 8 bytes are less than a line: write it with a unit, like 8Mi, or 0 to keep no output"},
		{"all output without a unit", "lifetime: {keepOutputTotal: 64}", "lifetime.keepOutputTotal: 64 bytes are less than a line"},
		{"more output of one job than of all", "lifetime: {keepOutput: 8Mi, keepOutputTotal: 1Mi}", "lifetime.keepOutputTotal: 1Mi for all jobs is less than lifetime.keepOutput for each, 8Mi"},
		{"start without a limit", "lifetime: {start: unlimited}", "lifetime.start: nodes that never start would stay allocated"},
		{"grace and max", "lifetime: {max: 5m}\njob: {grace: 5m}", "job.grace: 5m is not shorter than lifetime.max, 5m"},
		{"empty entrypoint", "job: {entrypoint: ' \t\n'}", "job.entrypoint: the command is only white space"},
		{"two directories", "job: {workingDir: ., cwd: /x}", "there are both workingDir and cwd"},
		{"cwd", "job: {cwd: x}", `job.cwd: "x" is not an absolute path`},
		{"output at home", "job: {outputDir: ~/x}", "begins with ~"},
		{"shared at home", "job: {shareDir: ~/x}", "is not an absolute path"},
		{"placeholder", "job: {outputDir: '/x/{run}'}", "{run} is not a known placeholder: use {name}"},
		{"pip and uv", "job: {pip: [a], uv: [b]}", "there are both pip and uv"},
		{"runtime_env", "job: {runtimeEnv: {env_vars: {A: b}}}", "job.runtimeEnv.env_vars: env_vars has a field of its own: use job.env"},
		{"runtime_env pip list", "job: {runtimeEnv: {pip: [a]}}", "use job.pip"},
		{"metadata", "job: {metadata: {rayctlX: b}}", "keys that begin with rayctl are reserved"},
		{"driver's resource", "job: {entrypointResources: {x: -1}}", "job.entrypointResources.x: -1 is negative"},
		{"driver's CPUs", "job: {entrypointResources: {CPU: 1}}", `"CPU" is not a custom resource of Ray: use entrypointCpus, entrypointGpus or entrypointMemory`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := spec.Validate(mustDecode(t, c.text))
			if c.name == "control character" {
				c.want = `slurm.partition: the value "gpu\n#SBATCH --wrap=x" has a control character: remove it`
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got  %v\nwant %s", err, c.want)
			}
			if strings.ContainsAny(strings.ReplaceAll(err.Error(), "\n", " "), "\x00\n") {
				t.Errorf("control characters in %q", err)
			}
		})
	}
}

// TestOneMistake expects one error for one mistake, though min and max follow replicas.
func TestOneMistake(t *testing.T) {
	for _, text := range []string{
		"launcher: local\nworkers: [{name: a, replicas: -1}, {name: b}]",
		"launcher: kuberay\nimage: i\nworkers: [{name: a, replicas: -1}]", // and a head make no node
	} {
		if err := spec.Validate(mustDecode(t, text)); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "-1 is negative") {
			t.Errorf("got %v", err)
		}
	}
}

func TestValidateAccepts(t *testing.T) {
	for _, text := range []string{
		"", "launcher: local", "launcher: slurm", "launcher: kuberay\nimage: i", "launcher: kuberay\nray: {version: 2.60.0}",
		"launcher: kuberay\nimage: i\ngang: false\nkuberay: {scheduler: none}\nworkers: [{name: a, replicas: 2, gpus: 1}]",
		"launcher: local\nhead: {cpus: 2}\nworkers: [{name: a, replicas: 0}]", "launcher: local\nhead: {on: head}\nworkers: [{name: a, replicas: 0, maxReplicas: 2}]",
		"launcher: slurm\nhead: {on: head, early: true, memory: 1Gi}\nworkers: [{name: a}]", "launcher: local\nhead: {on: head}",
		"job: {entrypoint: \"python -c '\\nprint(1)'\", env: {A: \"x\\n\\ty\"}, runtimeEnv: {pip: {packages: [a]}, config: {}}}",
		"job: {outputDir: 's3://b/{name}'}", "slurm: {dir: ~/runs, extraArgs: [--mail-type=END, -H]}", "lifetime: {queue: unlimited, max: 0, total: 5d, idle: 0s}",
		"workers: [{name: a, replicas: 2, minReplicas: 1, maxReplicas: 4}]",
	} {
		s := mustDecode(t, text)
		if err := spec.Validate(s); err != nil {
			t.Errorf("%s: before defaults: %v", text, err)
		}
		spec.Default(s)
		if err := spec.Validate(s); err != nil {
			t.Errorf("%s: with defaults: %v", text, err)
		}
	}
}

func TestRequireEntrypoint(t *testing.T) {
	if err := spec.RequireEntrypoint(&spec.ClusterSpec{}, "run"); err == nil || !strings.Contains(err.Error(), "rayctl run --") {
		t.Errorf("%v", err)
	}
	if err := spec.RequireEntrypoint(&spec.ClusterSpec{Job: spec.Job{Entrypoint: "x"}}, "run"); err != nil {
		t.Error(err)
	}
}

// TestOptionsOfRay: options of `ray start` that have no key are refused with what is there instead, wherever somebody looks for them.
func TestOptionsOfRay(t *testing.T) {
	for text, want := range map[string]string{
		"ray: {dashboardPort: 8265}":               "rayctl chooses free ports, so that clusters of one machine do not collide; `rayctl dashboard --port` and `rayctl port-forward` give them a fixed one here; on Slurm slurm.ports is their range",
		"workers: [{name: a, min_worker_port: 1}]": "rayctl chooses free ports",
		"head: {nodeIpAddress: 10.0.0.1}":          "the launcher chooses a node's address; on Slurm slurm.network chooses among several",
		"ray: {systemConfig: {a: 1}}":              "set it in env as RAY_NAME: VALUE",
		"systemConfig: {a: 1}":                     "set it in env as RAY_NAME: VALUE",
		"ray: {redis-address: 'r:6379'}":           "Ray's state is lost with its head: job.restarts.nodeFailure starts the driver again",
		"gcsFaultToleranceOptions: {}":             "Ray's state is lost with its head",
		"tls: true":                                "set RAY_USE_TLS, RAY_TLS_SERVER_CERT, RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT in env",
		"workers: [{name: a, num_cpus: 2}]":        "use cpus",
		"head: {rayStartParams: {}}":               "the keys of head and workers set the arguments of `ray start`; kuberay.rayCluster takes the spec of a whole RayCluster",
		"ray: {tempDir: /x}":                       "use local.tmpDir or slurm.tmpDir",
	} {
		_, err := spec.Decode(strings.NewReader(text), "rayctl.yaml")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "rayctl.yaml:1: ") || !strings.Contains(err.Error(), "unknown key") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, s := range spec.Substrates() {
		for name := range s.InsteadOf {
			if !slices.ContainsFunc(spec.OptionsOfRay(), func(o spec.RayOption) bool { return o.Has(name) }) {
				t.Errorf("%s registers something for %s, which is no option of Ray", s.Name, name)
			}
		}
	}
}

// TestAcceleratorType: a group's type of GPU is Ray's resource for it, once per node.
func TestAcceleratorType(t *testing.T) {
	s, err := spec.Decode(strings.NewReader("gpuTypes: {big: {acceleratorType: H100}}\nhead: {gpus: 1, gpuType: big}\n"+
		"workers: [{name: a, gpus: 2, gpuType: big, resources: {x: 2}}, {name: b, gpus: 1, gpuType: l4}, {name: c}]"), "rayctl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	spec.Default(s)
	var got []map[string]float64
	for _, g := range s.NodeGroups() {
		got = append(got, g.Resources)
	}
	want := []map[string]float64{nil, {"accelerator_type:H100": 1, "x": 2}, {"accelerator_type:L4": 1}, nil}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if len(s.Workers[0].Resources) != 1 {
		t.Error("the file's own resources are changed")
	}
}
