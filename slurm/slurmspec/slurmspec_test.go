package slurmspec_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

func mustDecode(t *testing.T, text string) *spec.ClusterSpec {
	t.Helper()
	s, err := spec.Decode(strings.NewReader(text), "rayctl.yaml")
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return s
}

func TestValidate(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no container", "launcher: slurm\nmounts: [{mountPath: /a, source: {slurm: /b}}]", "without a container /b cannot appear at /a"},
		{"early head in an allocation", "launcher: slurm\nslurm: {job: current}\nhead: {early: true}\nworkers: [{name: a}]", "head.early: with slurm.job: current all nodes are already allocated"},
		{"transport", "slurm: {transport: shh}", `"shh" is not possible here: did you mean ssh?`},
		{"ssh without host", "slurm: {transport: ssh}", "transport ssh needs a host"},
		{"option as host", "slurm: {host: -oProxyCommand=x}", "is not a host"},
		{"rest without URL", "slurm: {transport: slurmrestd}", "transport slurmrestd needs its URL"},
		{"rest URL", "slurm: {restUrl: 'slurm:6820'}", "is not a URL"},
		{"slurm dir", "slurm: {dir: runs}", `slurm.dir: "runs" is not an absolute path`},
		{"argument", "slurm: {extraArgs: [segment=2]}", "is not an option"},
		{"managed argument", "slurm: {extraArgs: [--comment=x]}", "slurm.extraArgs[0]: --comment is set by rayctl: use slurm.comment"},
		{"clusters as an argument", "slurm: {extraArgs: [-Mother]}", "-M is set by rayctl: use slurm.cluster"},
		{"several clusters", "slurm: {cluster: 'a,b'}", `"a,b" is not the name of one cluster`},
		{"cluster of slurmrestd", "slurm: {cluster: a, restUrl: 'http://slurm:6820'}", "a slurmrestd serves only one cluster"},
		{"comment of ours", "slurm: {comment: 'rayctl name=x'}", "rayctl marks its own jobs by a comment that begins with rayctl"},
		{"variable", "slurm: {keepEnv: ['A$(id)']}", `slurm.keepEnv[0]: "A$(id)" is not the name of a variable`},
		{"variable of Slurm", "slurm: {keepEnv: [SITE, SLURM_JOB_ID]}", "slurm.keepEnv[1]: Slurm or rayctl sets SLURM_JOB_ID for each job"},
		{"managed short argument", "slurm: {extraArgs: [-N4]}", "-N is set by rayctl: use workers[].replicas"},
		{"managed argument of a group", "launcher: slurm\nworkers: [{name: a, slurm: {extraArgs: [--array=1]}}]", "workers.a.slurm.extraArgs[0]: --array is set by rayctl"},
		{"part of a CPU", "launcher: slurm\nworkers: [{name: a, cpus: 500m}]", "workers.a.cpus: Slurm allocates only whole CPUs"},
		{"argument without container", "slurm: {containerArgs: [--cleanenv]}", "slurm.containerArgs: there is no container to give them to"},
		{"argument without option", "slurm: {containerRuntime: apptainer, containerImage: x, containerArgs: ['$(id)']}", `slurm.containerArgs[0]: "$(id)" is not an option`},
		{"without environment", "slurm: {containerRuntime: apptainer, containerImage: x, containerArgs: [--cleanenv]}", "--cleanenv would remove the variables"},
		{"image as argument", "slurm: {containerRuntime: pyxis, containerArgs: [--container-image=x]}", "--container-image is set by rayctl: use slurm.containerImage"},
		{"mounts as argument", "slurm: {containerRuntime: pyxis, containerArgs: ['--container-mounts=/a:/b']}", "--container-mounts is set by rayctl: use mounts"},
		{"srun's option as Pyxis'", "slurm: {containerRuntime: pyxis, containerArgs: [--container-writable, --ntasks=7]}", `slurm.containerArgs[1]: "--ntasks=7" is not an option of Pyxis`},
		{"option as Python", "slurm: {python: -c}", `slurm.python: "-c" is not an interpreter`},
		{"lines as Python", "slurm: {python: \"a\\nb\"}", `is not an interpreter`},
		{"variable in tmpDir", "slurm: {tmpDir: '/s/$HOME'}", `slurm.tmpDir: "/s/$HOME" has a $ that is not replaced on the nodes`},
		{"command in tmpDir", "slurm: {tmpDir: '/s/$USER/$(id)'}", "has a $ that is not replaced on the nodes"},
		{"longer variable in tmpDir", "slurm: {tmpDir: '/s/$USERS'}", "has a $ that is not replaced on the nodes"},
		{"relative tmpDir", "slurm: {tmpDir: '$USER/x'}", "is not an absolute path"},
		{"address as network", "slurm: {network: 'ib0,10.1.2.3'}", "slurm.network: 10.1.2.3 is the address of one node: write the network that all nodes are in"},
		{"network", "slurm: {network: 10.1.0.0/33}", `slurm.network: "10.1.0.0/33" is not a CIDR`},
		{"interface", "slurm: {network: '$(id)'}", `slurm.network: "$(id)" is not an interface`},
		{"no interface", "slurm: {network: 'ib0,'}", `slurm.network: "" is not an interface`},
		{"ports", "slurm: {ports: '20000'}", `slurm.ports: "20000" is not a range of ports`},
		{"turned ports", "slurm: {ports: 21000-20000}", "slurm.ports: 21000-20000 is not a range between 1024 and 65535"},
		{"ports of root", "slurm: {ports: 80-2000}", "is not a range between 1024"},
		{"too few ports", "launcher: slurm\nhead: {cpus: 1}\nslurm: {ports: 20000-20100}\nworkers: [{name: a, cpus: 40}]",
			"slurm.ports: 20000-20100 has 101 ports, and a node of a with the keeper beside it needs 144: make it larger"},
		{"ports of an old Ray", "launcher: slurm\nray: {version: 2.40.0}\nslurm: {ports: 20000-21000}", "slurm.ports: Ray 2.40.0 opens other ports, too: it needs 2.49 or later"},
		{"vendor", "gpuTypes: {a: {vendor: amdd}}", "gpuTypes.a.vendor: "},
		{"comma in a mount", "launcher: slurm\nslurm: {containerRuntime: pyxis}\nimage: x\nmounts: [{mountPath: '/a,/etc:/etc', source: {slurm: /b}}]", "mounts[0].mountPath: \"/a,/etc:/etc\" cannot be bound into a container"},
		{"colon in a directory", "launcher: slurm\nslurm: {containerRuntime: apptainer, tmpDir: '/a:/etc'}\nimage: x", "slurm.tmpDir: \"/a:/etc\" cannot be bound"},
		{"space in a directory", "launcher: slurm\nslurm: {containerRuntime: apptainer}\nimage: x\njob: {entrypoint: a, outputDir: /a b}", "job.outputDir: \"/a b\" cannot be bound"},
		{"container without image", "launcher: slurm\nslurm: {containerRuntime: pyxis}", "containerRuntime pyxis needs an image"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := spec.Validate(mustDecode(t, c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// TestExtraArgs: arguments that set what rayctl sets are refused with what to do instead, in all of their forms; others pass.
func TestExtraArgs(t *testing.T) {
	const sized = "launcher: slurm\nworkers: [{name: a, memory: 4Gi}, {name: b}]\n"
	for args, want := range map[string]string{
		"--chdir=/x": "use job.cwd", "-D/x": "use job.cwd", "-c4": "use workers[].cpus", "-c 4": "use workers[].cpus", "--cpus-per-gpu=2": "use workers[].cpus",
		"--ntasks-per-node=2": "slurm.exclusive: true", "--export=NONE": "use slurm.keepEnv", "--gres=gpu:2": "use workers[].gpus and gpuType",
		"--gres=tmpfs:100G,gpu:h100:2": "use workers[].gpus", "--gres=gres/gpu:2": "use workers[].gpus", "--gres=gpu": "use workers[].gpus",
		"--gpus=2": "use workers[].gpus", "-G2": "use workers[].gpus", "--gpus-per-node=2": "use workers[].gpus", "--gpus-per-task=1": "use workers[].gpus",
		"--partition=x": "use slurm.partition", "-px": "use slurm.partition", "-w n1": "use slurm.nodelist", "--exclusive": "use slurm.exclusive: true",
		"--error=/x": "the run directory has the output", "--mem-per-gpu=1G": "slurm.requestMemory: false", "--mem=8G": "slurm.requestMemory: false",
		"--test-only": "`rayctl doctor` tries the request",
	} {
		text := "slurm: {extraArgs: ['--nice=1', '" + args + "']}"
		if err := spec.Validate(mustDecode(t, sized+text)); err == nil || !strings.HasPrefix(err.Error(), "slurm.extraArgs[1]: ") ||
			!strings.Contains(err.Error(), " is set by rayctl: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	for _, text := range []string{
		sized + "slurm: {extraArgs: ['--gres=tmpfs:100G', '--gres-flags=enforce-binding', --exclusive=user, --threads-per-core=1, '--tmp=10G', -H, '--gpu-bind=closest', --segment=2]}",
		sized + "slurm: {requestMemory: false, extraArgs: ['--mem-per-cpu=4G']}",
		"launcher: slurm\nworkers: [{name: a, memory: 4Gi}, {name: b, slurm: {extraArgs: ['--mem-per-gpu=4G']}}]",
		"launcher: slurm\nworkers: [{name: a, memory: 4Gi, slurm: {requestMemory: false, extraArgs: ['--mem-per-gpu=4G']}}]",
		"launcher: slurm\nworkers: [{name: a}]\nslurm: {extraArgs: ['--mem=0']}",
	} {
		if err := spec.Validate(mustDecode(t, text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	err := spec.Validate(mustDecode(t, "launcher: slurm\nslurm: {exclusive: true}\nworkers: [{name: a, slurm: {extraArgs: [--mem=4G]}}]"))
	if err == nil || !strings.Contains(err.Error(), "workers.a.slurm.extraArgs[0]: --mem is set by rayctl") {
		t.Errorf("whole nodes: %v", err)
	}
}

func TestScratch(t *testing.T) {
	for _, dir := range []string{"/s/$USER/${SLURM_JOB_ID}", "$TMPDIR", "${TMPDIR}/ray", "/s/$SLURM_JOB_ID.x"} {
		if err := spec.Validate(mustDecode(t, "slurm: {tmpDir: '"+dir+"'}")); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestNetwork(t *testing.T) {
	for _, text := range []string{
		"network: ib0", "network: '10.1.0.0/16, eth0.5@x'", "network: 'fd01::/16'", "network: eth0:1", "ports: 20000-20063", "ports: 1024-65535",
	} {
		if err := spec.Validate(mustDecode(t, "launcher: slurm\nslurm: {"+text+"}")); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestSlurmFor(t *testing.T) {
	s := mustDecode(t, "launcher: slurm\nslurm: {partition: gpu, account: rl, exclusive: true, extraArgs: [--a]}\nworkers: [{name: a}, {name: b, slurm: {partition: cpu, exclusive: false, extraArgs: [--b]}}]")
	spec.Default(s)
	groups := s.NodeGroups()
	a, b := slurmspec.For(s, groups[0]), slurmspec.For(s, groups[1])
	if a.Partition != "gpu" || !*a.Exclusive || b.Partition != "cpu" || *b.Exclusive || b.Account != "rl" || strings.Join(b.ExtraArgs, " ") != "--a --b" || len(a.ExtraArgs) != 1 {
		t.Errorf("%+v %+v", a, b)
	}
}

func TestIgnored(t *testing.T) {
	const text = "head: {cpus: 1}\nmounts: [{mountPath: /a, readOnly: true, source: {slurm: /a}}]\nworkers: [{name: a, shm: 1Gi, maxReplicas: 3, image: y}]\n"
	ignored := func(more string) string {
		return strings.Join(slurmspec.Substrate.Ignored(spec.For(mustDecode(t, text+more), "slurm")), "\n")
	}
	for _, want := range []string{"workers.a.shm is ignored: ", "mounts[0].readOnly is ignored: ", "workers.a.image is ignored: "} {
		if got := ignored(""); !strings.Contains(got, want) || strings.Count(got, "\n") != 2 {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if got := ignored("slurm: {containerRuntime: pyxis}\nimage: x"); strings.Contains(got, "readOnly") || strings.Contains(got, "image") {
		t.Errorf("in containers: %s", got)
	}
}

// TestCurrent: what the allocation that is there cannot be asked for is refused with the key; restarts by preemption, which are the default, are none.
func TestCurrent(t *testing.T) {
	for text, want := range map[string]string{
		"slurm: {job: 'x; $(id)'}":                                        `slurm.job: "x; $(id)" is not possible here`,
		"slurm: {job: current, partition: 'a b'}":                         "slurm.partition: with slurm.job: current",
		"slurm: {job: current, account: rl}":                              "slurm.account: ",
		"slurm: {job: current}\nworkers: [{name: a, maxReplicas: 2}]":     "workers.a.maxReplicas: the allocation in which this command runs cannot grow",
		"slurm: {nodelist: 'a,b'}\nworkers: [{name: a, maxReplicas: 2}]":  "workers.a.maxReplicas: each further node of the group is a separate job of one node",
		"slurm: {exclusive: true}\nworkers: [{name: a, maxReplicas: 2}]":  "workers.a.cpus: Ray's autoscaler must know what a node of an elastic group has",
		"slurm: {job: current, exclusive: false}":                         "slurm.exclusive: ",
		"slurm: {job: current, extraArgs: [--x]}":                         "slurm.extraArgs: ",
		"slurm: {job: current, begin: now}":                               "slurm.begin: ",
		"slurm: {job: current, host: login1}":                             "slurm.job: current is the allocation in which this command runs",
		"slurm: {job: current, restUrl: 'http://s:1'}":                    "slurm.job: current is the allocation in which this command runs",
		"slurm: {job: current}\nworkers: [{name: a, slurm: {qos: high}}]": "workers.a.slurm.qos: ",
		"slurm: {job: current}\njob: {restarts: {preempted: 2}}":          "job.restarts: ",
		"slurm: {job: current}\njob: {restarts: {timeLimit: 1}}":          "job.restarts: ",
	} {
		s := spec.For(mustDecode(t, "launcher: slurm\n"+text), "slurm")
		if err := spec.Validate(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	s := spec.For(mustDecode(t, "slurm: {job: current, host: login1, transport: local}\njob: {restarts: {driver: 3}}"), "slurm")
	if err := spec.Validate(s); err != nil || *s.Job.Restarts.Preempted != 0 {
		t.Errorf("%v, %+v", err, s.Job.Restarts)
	}
	if a, b := spec.Hash(spec.For(mustDecode(t, "slurm: {job: new}"), "slurm")), spec.Hash(spec.For(mustDecode(t, "slurm: {}"), "slurm")); a != b {
		t.Error("the default is another cluster")
	}
}

// TestAroundUs: who is in an allocation learns where the cluster is to be, and which key changes it.
func TestAroundUs(t *testing.T) {
	t.Setenv("SLURM_JOB_ID", "7")
	for text, want := range map[string]string{
		"slurm: {}":             "this command runs inside Slurm job 7, but the cluster gets a job of its own; slurm.job: current (--slurm-job current) uses job 7",
		"slurm: {host: login1}": "",
		"slurm: {job: current}": "",
		"slurm: {job: current}\nlifetime: {queue: 1h}": "lifetime.queue has no effect",
	} {
		notes := strings.Join(slurmspec.Substrate.Ignored(spec.For(mustDecode(t, text), "slurm")), "\n")
		if want == "" && notes != "" || !strings.Contains(notes, want) {
			t.Errorf("%s: %q, want %q", text, notes, want)
		}
	}
}

// TestGangFalse: on Slurm all required nodes are one request, whatever the file has, and a note reports that.
func TestGangFalse(t *testing.T) {
	for text, want := range map[string][]string{
		"slurm: {host: login1}": nil,
		"gang: false\nslurm: {host: login1}\nworkers: [{name: a, replicas: 2}]": {"gang: false is ignored: all required nodes start together on Slurm"},
	} {
		if notes := slurmspec.Substrate.Ignored(spec.For(mustDecode(t, text), "slurm")); !slices.Equal(notes, want) {
			t.Errorf("%s: %q, want %q", text, notes, want)
		}
	}
}

// TestShortMount: a path alone is the directory of this path.
func TestShortMount(t *testing.T) {
	short := mustDecode(t, "launcher: slurm\nmounts: [/shared, {mountPath: /a, source: /a}]")
	long := mustDecode(t, "launcher: slurm\nmounts:\n- {mountPath: /shared, source: {slurm: /shared}}\n- {mountPath: /a, source: {slurm: /a}}")
	for i := range long.Mounts {
		got, want := slurmspec.Source(short.Mounts[i].Source.Sections), slurmspec.Source(long.Mounts[i].Source.Sections)
		if short.Mounts[i].MountPath != long.Mounts[i].MountPath || got != want {
			t.Errorf("%s from %s, want %s from %s", short.Mounts[i].MountPath, got, long.Mounts[i].MountPath, want)
		}
	}
	if err := spec.Validate(short); err != nil {
		t.Error(err)
	}
}
