package spec

// Job is the driver that `run` and `submit` run on the cluster, through Ray's job API.
type Job struct {
	// Entrypoint is the driver's command line, run by the shell on the head. A command after -- replaces it.
	Entrypoint string `json:"entrypoint,omitempty"`
	// WorkingDir is a directory that is packed, uploaded and made the driver's current directory on all nodes; relative to the
	// file. .gitignore and .rayignore in it are obeyed as git does, and its .git/info/exclude. A remote URI (https, s3, gs, ...) is passed to Ray as it is. Excludes cwd.
	// Default: none.
	WorkingDir string `json:"workingDir,omitempty" path:"client"`
	// Cwd is an absolute directory that the nodes already have and that the driver starts in; nothing is uploaded. Excludes workingDir.
	// Default without workingDir: the current directory where the nodes have it (on local, and on Slurm without host), else Ray's own choice.
	Cwd string `json:"cwd,omitempty"`
	// OutputDir is a directory on the nodes (or a URI) for checkpoints and results, the same for all attempts of a run, given to the
	// driver as RAYCTL_OUTPUT_DIR. {name} becomes the run's name. A relative path is relative to the file. Default: on Slurm and local, a directory in the run directory; on KubeRay one of each pod, which goes with the pod.
	OutputDir string `json:"outputDir,omitempty" path:"nodes"`
	// Env is the environment of this job only, through Ray's runtime_env, which Ray shows and logs: not for secrets. Ray replaces $NAME
	// and ${NAME} in a value by the node's variable NAME, as in PATH: /opt/bin:${PATH}; everything else arrives as it is.
	Env map[string]string `json:"env,omitempty"`
	// Grace is the time between SIGTERM and SIGKILL for the driver when the job is stopped, for a last checkpoint.
	// Default: 3s, as Ray has it.
	Grace *Duration `json:"grace,omitempty"`
	// Restarts says how often the run is tried again, by what ended the attempt.
	Restarts Restarts `json:"restarts,omitzero"`
	// Excludes are patterns as in .gitignore that are left out of workingDir, besides .gitignore and .rayignore; "!venv" brings back what is left out by default: .git, .venv, venv, __pycache__.
	Excludes []string `json:"excludes,omitempty"`
	// PyModules are directories, packages or URIs that are uploaded and importable in the job (py_modules of runtime_env).
	PyModules []string `json:"pyModules,omitempty" path:"client"`
	// Pip are requirements that Ray installs with pip for this job on every node (pip of runtime_env): a list, or the name of a requirements file, which
	// is read on the client as Ray's SDK does, with the files that its -r lines name by a relative path; relative to the file. Excludes uv.
	Pip Requirements `json:"pip,omitzero" path:"client"`
	// Uv are requirements that Ray installs with uv for this job on every node (uv of runtime_env): a list, or the name of a requirements file, as for pip. Excludes pip.
	Uv Requirements `json:"uv,omitzero" path:"client"`
	// RuntimeEnv is passed on as Ray's runtime_env. The keys working_dir, env_vars, py_modules and excludes, and lists of pip and uv, are errors in it, as they have a
	// field here. Files are read on the client as Ray's SDK does: requirements files (pip, pip.packages and uv), and a conda environment whose
	// name ends in .yaml or .yml; relative to the file. Another text of conda is an environment that the nodes have.
	RuntimeEnv Object `json:"runtimeEnv,omitempty" path:"runtimeEnv"`
	// Metadata is kept with the job by Ray, as its job API takes it. Keys that begin with rayctl are reserved.
	Metadata map[string]string `json:"metadata,omitempty"`
	// EntrypointCPUs is the number of CPUs reserved for the driver itself (entrypoint_num_cpus). Default: 0.
	EntrypointCPUs CPUs `json:"entrypointCpus,omitempty"`
	// EntrypointGPUs is the number of GPUs reserved for the driver itself (entrypoint_num_gpus). Default: 0.
	EntrypointGPUs float64 `json:"entrypointGpus,omitempty" jsonschema:"minimum=0"`
	// EntrypointMemory is the memory reserved for the driver itself (entrypoint_memory), a Kubernetes quantity. Default: 0.
	EntrypointMemory Quantity `json:"entrypointMemory,omitzero"`
	// EntrypointResources are Ray's custom resources reserved for the driver itself (entrypoint_resources).
	EntrypointResources map[string]float64 `json:"entrypointResources,omitempty"`
	// EntrypointLabelSelector is the node labels that the driver's node must have (entrypoint_label_selector, Ray 2.49 and later).
	EntrypointLabelSelector map[string]string `json:"entrypointLabelSelector,omitempty"`
}

// Restarts says how often a run is tried again as its next attempt, by what ended the attempt: a number or unlimited.
type Restarts struct {
	// Driver counts attempts ended by a driver's own exit code other than 0. Default: 0.
	Driver Count `json:"driver,omitempty"`
	// NodeFailure counts attempts ended by a lost node, pod or head. Default: 0.
	NodeFailure Count `json:"nodeFailure,omitempty"`
	// Preempted counts attempts ended by the scheduler's preemption, requeue or eviction. Default: unlimited.
	Preempted *Count `json:"preempted,omitempty"`
	// TimeLimit counts attempts ended by lifetime.max or the partition's time limit. The next attempt has lifetime.max for itself: on Slurm in
	// another job, elsewhere on the same nodes. Default: 0.
	TimeLimit Count `json:"timeLimit,omitempty"`
}
