// Package spec is the cluster file: its types, units, strict decoding, defaults, validation, hash and JSON Schema.
// The comments of these types are the reference: the schema and docs/cluster-file.md are made from them.
//
// Durations are written 90s, 3d12h or as Slurm writes them, 3-12:00:00.
// Memory is a Kubernetes quantity (16Gi, 1500Gi, 500M) with every launcher.
package spec

import "github.com/rayctl/rayctl/launcher/spec/units"

// APIVersion is the only version of the cluster file so far.
const APIVersion = "rayctl/v1"

// ClusterSpec is a cluster file: one Ray cluster, how long it may live, and the job it is for.
type ClusterSpec struct {
	// APIVersion is the version of this format, rayctl/v1. It may be left out. Default: rayctl/v1.
	APIVersion string `json:"apiVersion,omitempty" jsonschema:"enum=rayctl/v1"`
	// Name is the cluster's name, a DNS label of at most 40 characters. `run` appends five characters to it, `up` uses it unchanged, and --name is never
	// changed. Default: the name of the folder that holds the file.
	Name string `json:"name,omitempty"`
	// Labels are the labels of the objects that rayctl creates, where Slurm or Kubernetes has labels; `ls -l` and `down -l` select clusters by them. Keys
	// and values follow the rules of Kubernetes labels.
	Labels map[string]string `json:"labels,omitempty"`
	// Launcher is where the cluster runs. Default: the one of the sections slurm and kuberay that is there, else local.
	Launcher string `json:"launcher,omitempty" enum:"launchers"`
	// Image is the container image of every node: pods on KubeRay, the container on Slurm if
	// slurm.containerRuntime is set. Groups may have their own. Elsewhere it is ignored, and --image is an error.
	// Default on KubeRay: rayproject/ray with the tag of ray.version.
	Image string `json:"image,omitempty"`
	// Ray sets which Ray the cluster runs.
	Ray Ray `json:"ray,omitzero"`
	// Env is the environment of `ray start` on every node, and so of every process that Ray starts there. Do not put secrets here: the tools of Slurm and
	// Kubernetes show it.
	Env map[string]string `json:"env,omitempty"`
	// Setup is a bash script that runs on every node before Ray starts. If the script fails, the node fails, and the error has the script's last lines.
	Setup string `json:"setup,omitempty"`
	// Secrets are environment variables of `ray start` whose values come from the client's environment, a file, or a Kubernetes
	// Secret. They are never part of argv, runtime_env, pod specs, rendered files or logs.
	Secrets []Secret `json:"secrets,omitempty"`
	// Mounts make a directory or volume visible at the same path on every node. A path alone, as in mounts: [/shared], is the directory of this path, on
	// Slurm and on this machine; on Kubernetes a mount needs source.kuberay.
	Mounts []Mount `json:"mounts,omitempty"`

	// Head sets where Ray's head runs. Default: on the first group's first worker on Slurm and local, a pod of
	// its own on KubeRay.
	Head Head `json:"head,omitzero"`
	// Workers are the worker groups; the nodes of a group are equal. Without groups the cluster is one head that also runs tasks.
	Workers []WorkerGroup `json:"workers,omitempty"`
	// Gang makes the head and the minReplicas of all groups start together or not at all. Default: true.
	Gang *bool `json:"gang,omitempty"`

	// Scaling is how groups with a maxReplicas above their minReplicas grow and shrink. Ray's own autoscaler decides this from the requests of tasks,
	// actors and placement groups.
	Scaling Scaling `json:"scaling,omitzero"`

	// Lifetime limits the cluster's life. The keeper beside the cluster enforces the limits, also when the client has ended.
	Lifetime Lifetime `json:"lifetime,omitzero"`
	// Job is the driver that `run` and `submit` run on the cluster.
	Job Job `json:"job,omitzero"`

	// Sections are the launchers' sections.
	Sections Sections `json:"-" section:"cluster"`
	// GPUTypes translates each name of workers[].gpuType into the site's names. It depends on the site, so keep it in a profile.
	GPUTypes map[string]GPUType `json:"gpuTypes,omitempty"`
}

// Ray sets which Ray the cluster runs.
type Ray struct {
	// Version is Ray's version, for example 2.60.0. If the nodes have another version, the cluster fails to start. Only the local launcher installs Ray.
	// Default: what image or python has; for local without python, the newest version that rayctl was tested with.
	Version string `json:"version,omitempty"`
	// Python is the interpreter, or the directory of the virtual environment, that has Ray on the nodes. Default: for local an
	// environment that rayctl makes and caches; for Slurm the python3 on PATH after modules and setup; for KubeRay the image's.
	Python string `json:"python,omitempty" path:"program"`
	// FastStart lets rayctl change functions inside `ray start`, which makes the start faster, and more reliable on a busy machine (docs/keeper.md, "Ray's
	// start"). With false rayctl does not change Ray's start. Default: true for the Ray versions that rayctl's tests start so, false for others.
	FastStart *bool `json:"fastStart,omitempty"`
}

// Secret is an environment variable whose value is not in the file. A plain string names a variable of the client's environment.
type Secret struct {
	// Name is the environment variable that drivers, tasks and actors see.
	Name string `json:"name" jsonschema:"required"`
	// File is a file on the client that holds the value; a final newline is dropped, ~ is the home directory. Default: without
	// file and secretKeyRef the value is the client's environment variable of this name.
	File string `json:"file,omitempty" path:"client"`
	// SecretKeyRef is a key of a Secret that already is in the cluster's namespace. KubeRay only.
	SecretKeyRef *SecretKeyRef `json:"secretKeyRef,omitempty"`
}

// SecretKeyRef names a key of a Kubernetes Secret in the cluster's namespace.
type SecretKeyRef struct {
	// Name is the Secret's name.
	Name string `json:"name" jsonschema:"required"`
	// Key is the key in the Secret's data.
	Key string `json:"key" jsonschema:"required"`
}

// Mount makes a directory or volume visible at the same path on every node.
type Mount struct {
	// MountPath is the absolute path on the nodes.
	MountPath string `json:"mountPath" jsonschema:"required"`
	// ReadOnly forbids writing where that is possible (pods and containers). Default: false.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Source is where the data is, for each launcher. A launcher whose source is missing refuses the file. A path alone is the one of slurm and local.
	Source MountSource `json:"source" jsonschema:"required"`
}

// MountSource is where a mount's data is, for each launcher.
type MountSource struct {
	// Sections are the sources, by launcher.
	Sections Sections `json:"-" section:"mount"`
}

// NodeResources are the resources of one Ray node, exactly as Ray gets them.
type NodeResources struct {
	// CPUs is the number of CPU cores of one node: a number, or a Kubernetes quantity such as 500m. Slurm wants a whole number.
	// Default: 1 on KubeRay and Slurm (with slurm.exclusive all of the node's); on local an equal share of the machine's cores, at least 1.
	CPUs units.CPUs `json:"cpus,omitempty"`
	// Memory is the memory of one node, a Kubernetes quantity such as 16Gi. Default: what Slurm, Kubernetes or the machine gives.
	Memory Quantity `json:"memory,omitzero"`
	// GPUs is the number of GPUs of one node. On this machine an error if there are fewer. Default: 0.
	GPUs int `json:"gpus,omitempty" jsonschema:"minimum=0"`
	// GPUType is a type of GPU, translated by gpuTypes: a GRES type on Slurm, a node selector on KubeRay, Ray's resource accelerator_type
	// everywhere. A type that gpuTypes does not have is the GRES type itself on Slurm and an error on KubeRay. Default: any.
	GPUType string `json:"gpuType,omitempty"`
	// Shm is the size of /dev/shm, where Ray keeps its object store, a Kubernetes quantity. Only KubeRay can set it; it counts
	// as memory of the pod. Default on KubeRay: 30% of memory, which is what Ray takes for its object store.
	Shm Quantity `json:"shm,omitzero"`
	// ObjectStoreMemory is the size of Ray's object store on one node, a Kubernetes quantity. Default: 30% of memory; on local at most 2Gi for all nodes
	// together and 80% of what /dev/shm has free; without memory on Slurm and KubeRay, Ray's own choice.
	ObjectStoreMemory Quantity `json:"objectStoreMemory,omitzero"`
	// ObjectSpillingDirectory is an absolute directory of the nodes in which Ray stores objects that do not fit into its object store. The files are
	// deleted with the node, or with the pod's volume. Ray 2.49 and later. Default: the node's temporary directory, which local.tmpDir and slurm.tmpDir
	// set.
	ObjectSpillingDirectory string `json:"objectSpillingDirectory,omitempty"`
	// Resources are Ray's custom resources of one node, by name.
	Resources map[string]float64 `json:"resources,omitempty"`
	// Labels are Ray's labels of one node, which the label selectors of tasks, actors and the driver name (Ray 2.49 and later). They are independent of
	// the cluster's labels, by which `ls` and `down` select clusters.
	Labels map[string]string `json:"labels,omitempty"`
	// Env is added to the cluster's env on these nodes; a variable that both have gets this value.
	Env map[string]string `json:"env,omitempty"`
	// Image is the container image of these nodes. Default: the cluster's image.
	Image string `json:"image,omitempty"`
	// Sections are what launchers add.
	Sections Sections `json:"-" section:"node"`
}

// Head sets where Ray's head runs and what it gets if it has a node of its own.
type Head struct {
	// On is the worker group whose first worker is also the head, or `head` for a head with a node of its own, which takes no tasks where there are
	// workers. With a group no other key of head may be set. Default: head if cpus or another key of head is set, also as 0, and on KubeRay (a pod of its
	// own); else the first group.
	On string `json:"on,omitempty"`
	// Early lets the head start before the workers, on a node of its own: job.prepare runs on it while the workers wait for their nodes together (job.start). On
	// Slurm head and workers are then jobs of their own, on KubeRay the workers a gang of their own; lifetime.queue counts for each, and lifetime.max from the head's
	// start. Default: false.
	Early bool `json:"early,omitempty"`
	NodeResources
}

// WorkerGroup is a group of like Ray nodes. A worker is one Ray node: one task on Slurm, one pod on KubeRay.
type WorkerGroup struct {
	// Name is the group's name, a DNS label of at most 40 characters, unique in the file. On this machine and on Slurm, Ray's nodes have it as the label rayctl.io/group.
	Name string `json:"name" jsonschema:"required"`
	// Replicas is the number of workers at the start. Default: minReplicas if that is set, else 1.
	Replicas *int `json:"replicas,omitempty" jsonschema:"minimum=0" changeable:"true"`
	// MinReplicas is the smallest number of workers: the gang needs this number, the job waits for it (also with gang: false), and an elastic group never
	// has fewer. Default: replicas.
	MinReplicas *int `json:"minReplicas,omitempty" jsonschema:"minimum=0" changeable:"true"`
	// MaxReplicas is the largest number of workers of an elastic group. Default: replicas.
	MaxReplicas *int `json:"maxReplicas,omitempty" jsonschema:"minimum=0" changeable:"true"`
	NodeResources
}

// Scaling is how elastic groups grow and shrink.
type Scaling struct {
	// Idle is how long a node above minReplicas is kept while nothing uses it. Default: 5m.
	Idle units.Limit `json:"idle,omitzero" changeable:"true"`
	// UpscalingSpeed is how many nodes of a group may be on their way at once, as a multiple of its running nodes; one may always be (Ray's
	// upscaling_speed). Default: all nodes that are needed.
	UpscalingSpeed float64 `json:"upscalingSpeed,omitempty"`
	// MaxAllocations is the largest number of additional nodes (above minReplicas) at one time, in all groups together, including queued ones. On Slurm
	// each is a job or an element of a job array, as is a node that replaces a lost required one. Default: no limit but each group's maxReplicas.
	MaxAllocations int `json:"maxAllocations,omitempty" jsonschema:"minimum=0"`
}

// Lifetime bounds the cluster's life. All are durations; 0 and unlimited mean no limit.
type Lifetime struct {
	// Queue is how long the cluster may wait until its whole gang is admitted; after that the launch ends (exit code 75). Default: no limit.
	Queue units.Limit `json:"queue,omitzero"`
	// Max is how long an attempt may run, counted from the admission of the gang, which is when its nodes are granted, so that the start of Ray is
	// included (exit code 124). On local that is the launch, on Slurm the start of the job, on KubeRay the head's first answer. rayctl requests some
	// minutes more from Slurm (--time) for the driver's grace; if the partition's limit does not allow this, the end begins earlier by this time. The
	// driver finds the moment in RAYCTL_ENDS_AT; then it gets SIGTERM, and job.grace to save. Default:
	// for up 12h; for run no limit, on Slurm then the partition's default.
	Max units.Limit `json:"max,omitzero" changeable:"true"`
	// Start is how long it may take from the admission of the gang until all nodes are alive: to pull the image, to run setup, to start Ray. After that
	// the attempt fails to start (exit code 73). On KubeRay this time begins with the head's first answer, without a gang scheduler when all required pods
	// have nodes if that is later: it includes pulling the image of the workers, but not the image of the head. Default: 10m, on KubeRay 30m.
	Start units.Limit `json:"start,omitzero"`
	// Total is how long all attempts together may take, queueing included. Default: no limit.
	Total units.Limit `json:"total,omitzero"`
	// Idle ends a cluster that had no running task, no resource in use, no submission job and no Serve application for this long.
	// Default: for up 1h; for run no limit.
	Idle units.Limit `json:"idle,omitzero" changeable:"true"`
	// IdleGPU ends a cluster or a run if all its GPUs have done nothing for this time (exit code 79): each measurement of NVML or nvidia-smi is below 2%.
	// After half of the time the status gives a warning. If one GPU cannot be read, nothing is ended. The start of the job and job.prepare count. Default:
	// no limit.
	IdleGPU units.Limit `json:"idleGpu,omitzero" changeable:"true"`
	// Silence is how long the head may be silent, if its driver, GCS and supervisor do not show that they are alive either; after that the cluster is lost
	// (exit code 76). Default: 5m.
	Silence units.Limit `json:"silence,omitzero"`
	// Keep is how long the driver's log, the exit code and the timeline are kept after the end. 0 keeps nothing. Default: 7d.
	Keep *units.Duration `json:"keep,omitempty"`
	// KeepOutput is how much of the output of each job that was submitted to the cluster is kept after the end (see keep). Of a longer one the
	// beginning (a quarter of this) and the end are kept, and a line between them that says how many bytes are left out. 0 keeps no output; the records of
	// the jobs with their exit codes stay. On KubeRay it is at most 16Mi. Default: 8Mi.
	KeepOutput *Quantity `json:"keepOutput,omitempty"`
	// KeepOutputTotal is how much of the output of all these jobs is kept, the newest jobs first: of those that ran on one node, on KubeRay of all, where the
	// record has room for 6 MiB of compressed output. Default: 64Mi, or keepOutput if that is more.
	KeepOutputTotal *Quantity `json:"keepOutputTotal,omitempty"`
}

// GPUType is what a site calls a type of GPU.
type GPUType struct {
	// Sections are what launchers call it.
	Sections Sections `json:"-" section:"gpuType"`
	// AcceleratorType is Ray's accelerator_type, as in ray.util.accelerators, which tasks and actors can ask for. Default: the type's name in capitals.
	AcceleratorType string `json:"acceleratorType,omitempty"`
}

// Job is the driver that `run` and `submit` run on the cluster, through Ray's job API.
type Job struct {
	// Entrypoint is the driver's command line, run by the shell on the head. A command after -- replaces it.
	Entrypoint string `json:"entrypoint,omitempty"`
	// Prepare is a command line that runs before the driver, once on each cluster, by the shell on the head: it loads weights, packages, data. It has the
	// driver's directory and environment, but entrypointCpus and similar keys do not apply to it. Its output is the first part of the log. If it fails,
	// the run ends with the cause prepare-failed and the exit code of this command. It does not run again when the driver is restarted on the same
	// cluster, but it does on another cluster. Only `run` uses it.
	Prepare string `json:"prepare,omitempty"`
	// Launch runs the command on every node instead of once, as torchrun, MPI and plain ranks need it (`rayctl help each-node`). Only `run` uses it.
	Launch Launch `json:"launch,omitzero"`
	// Start sets when the driver starts on a cluster with an early head: gang, when all required nodes are alive; or head, when the head is alive and prepare
	// is done, for drivers that wait for nodes by themselves. Default: gang.
	Start string `json:"start,omitempty" jsonschema:"enum=gang,enum=head"`
	// WorkingDir is a directory that is packed, uploaded and made the driver's current directory on all nodes; relative to the
	// file. A .zip file is unpacked there. Of a directory in a git work tree, the files are sent that git tracks or would add, also those of submodules, and no empty directories; elsewhere the .gitignore files
	// in it are obeyed. .rayignore leaves out more. With RAY_RUNTIME_ENV_IGNORE_GITIGNORE=1 what git ignores is sent, too. A remote URI (https, s3, gs, ...) is passed to Ray as it is. The driver works
	// in a copy, which goes with the cluster: results belong in RAYCTL_OUTPUT_DIR. Excludes cwd.
	// Default: none.
	WorkingDir string `json:"workingDir,omitempty" path:"client"`
	// Cwd is the absolute path of an existing directory on the nodes in which the driver, its tasks and its actors start; nothing is uploaded. On a node that does not have it tasks and
	// actors start in Ray's directory, which the output notes once. Excludes workingDir. Default without
	// workingDir: the current directory where the nodes have it (on local, and on Slurm without host), else Ray's own choice.
	Cwd string `json:"cwd,omitempty"`
	// CwdOptional lets the driver start elsewhere, after a note in its output, where cwd does not exist. Default: false; true for a cwd that the file does not name.
	CwdOptional bool `json:"cwdOptional,omitempty"`
	// OutputDir is a directory on the nodes (or a URI) for checkpoints and results, the same for all attempts of a run and for all jobs on a cluster of `up`, given to
	// drivers as RAYCTL_OUTPUT_DIR. {name} becomes the run's name. A relative path is relative to the file. Default: on Slurm and local, a directory in the run directory; on KubeRay one of each pod, which goes with the pod.
	OutputDir string `json:"outputDir,omitempty" path:"nodes"`
	// ShareDir is an existing directory on the nodes whose group may read the run (docs/sharing.md): in it the run gets a directory of its name with copies of
	// its output, state and result. A relative path is relative to the file. Slurm and this machine only; on Kubernetes the Role decides.
	ShareDir string `json:"shareDir,omitempty" path:"nodes"`
	// Env is the environment of this job only, through Ray's runtime_env, which Ray shows and logs: not for secrets. Ray replaces $NAME
	// and ${NAME} in a value by the node's variable NAME, as in PATH: /opt/bin:${PATH}; everything else arrives as it is.
	Env map[string]string `json:"env,omitempty"`
	// Grace is the time between SIGTERM and SIGKILL for the driver when the job is stopped, for a last checkpoint. If it is 5s or longer and a limit,
	// Slurm or Kubernetes ends the run, Ray starts no new tasks and actors during this time: save from the driver, or with existing actors. On KubeRay an
	// evicted pod then also lives for this time. Default: 3s, as Ray has it.
	Grace *units.Duration `json:"grace,omitempty"`
	// Restarts is how often the run is started again, depending on the cause that ended the attempt.
	Restarts Restarts `json:"restarts,omitzero"`
	// Excludes are patterns as in .gitignore that are left out of workingDir and pyModules, besides what .gitignore and .rayignore leave out. "!data/model.pt" sends what .gitignore leaves out, here and
	// in .rayignore; "!data" a directory with all that is in it. "!venv" sends what is left out by default: .git, .venv, venv, __pycache__.
	Excludes []string `json:"excludes,omitempty"`
	// PyModules are directories, packages or URIs that are uploaded and importable in the job (py_modules of runtime_env).
	PyModules []string `json:"pyModules,omitempty" path:"client"`
	// Pip are requirements that Ray installs with pip for this job on every node (pip of runtime_env): a list, or the name of a requirements file, which
	// is read on the client as Ray's SDK does, with the files that its -r lines name by a relative path; relative to the file. Local paths in requirements
	// (-e ., ./vendor/x.whl, --find-links ./wheels, -c constraints.txt) are relative to the file, too: the nodes take what is below workingDir from there
	// (Ray 2.10 and later), and elsewhere they need to have the client's directories. `run` on this machine installs them in the environment that rayctl
	// makes and keeps, as local.packages, unless a line has a local path or ray.python is set. Excludes uv.
	Pip Requirements `json:"pip,omitzero" path:"client"`
	// Uv are requirements that Ray installs with uv for this job on every node (uv of runtime_env): a list, or the name of a requirements file, as for pip. Excludes pip.
	Uv Requirements `json:"uv,omitzero" path:"client"`
	// RuntimeEnv is passed on as Ray's runtime_env. The keys working_dir, env_vars, py_modules and excludes, and lists of pip and uv, are errors in it, as they have a
	// field here. Files are read on the client as Ray's SDK does: requirements files (pip, pip.packages and uv), and a conda environment whose
	// name ends in .yaml or .yml; relative to the file. Another text of conda is an environment that the nodes have. Other keys go to plugins, and are noted.
	RuntimeEnv Object `json:"runtimeEnv,omitempty" path:"runtimeEnv"`
	// Metadata is stored with the job by Ray's job API. Keys that begin with rayctl are reserved.
	Metadata map[string]string `json:"metadata,omitempty"`
	// EntrypointCPUs is the number of CPUs reserved for the driver itself (entrypoint_num_cpus). Default: 0.
	EntrypointCPUs units.CPUs `json:"entrypointCpus,omitempty"`
	// EntrypointGPUs is the number of GPUs reserved for the driver itself (entrypoint_num_gpus). Default: 0.
	EntrypointGPUs float64 `json:"entrypointGpus,omitempty" jsonschema:"minimum=0"`
	// EntrypointMemory is the memory reserved for the driver itself (entrypoint_memory), a Kubernetes quantity. Default: 0.
	EntrypointMemory Quantity `json:"entrypointMemory,omitzero"`
	// EntrypointResources are Ray's custom resources reserved for the driver itself (entrypoint_resources).
	EntrypointResources map[string]float64 `json:"entrypointResources,omitempty"`
	// EntrypointLabelSelector is the node labels that the driver's node must have (entrypoint_label_selector, Ray 2.49 and later).
	EntrypointLabelSelector map[string]string `json:"entrypointLabelSelector,omitempty"`
}

// Restarts is how often a run is started again as its next attempt, depending on the cause that ended the attempt: a number or unlimited.
type Restarts struct {
	// Driver counts attempts ended by a driver's own exit code other than 0. Default: 0.
	Driver units.Count `json:"driver,omitempty"`
	// NodeFailure counts attempts ended by a lost head, node or pod, and by a driver that fails because a node was lost (within 5 minutes, or while the node is
	// missing). Default: 0.
	NodeFailure units.Count `json:"nodeFailure,omitempty"`
	// Preempted counts attempts ended by the scheduler's preemption, requeue or eviction. Default: unlimited.
	Preempted *units.Count `json:"preempted,omitempty"`
	// TimeLimit counts attempts ended by lifetime.max or the partition's time limit. The next attempt has the full lifetime.max again: on Slurm in another
	// job, elsewhere in the same allocation. There, except on Kubernetes, Ray starts again if job.grace is 5s or more, so that job.prepare runs again. Default: 0.
	TimeLimit units.Count `json:"timeLimit,omitempty"`
}

// Launch runs a command on every required node of the gang. Nodes that an elastic group may have more do not run it.
type Launch struct {
	// PerNode is how many processes run on each node, which share its CPUs and GPUs equally, or gpu: one for each GPU. Default: 1 if groups is given; without both the
	// command runs once, on the head.
	PerNode units.Each `json:"perNode,omitempty"`
	// Groups are the worker groups whose nodes run the command; head is the node of the head's own. Default: all worker groups, with gpu those that have GPUs; the head if there are none.
	Groups []string `json:"groups,omitempty"`
}
