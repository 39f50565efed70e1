package slurmspec

// cluster is what Slurm adds to the cluster file itself.
type cluster struct {
	// Slurm sets how to get nodes from Slurm. Its presence chooses the slurm launcher if nothing else does.
	Slurm *Section `json:"slurm,omitempty"`
}

// node is what Slurm adds to the head and to worker groups.
type node struct {
	// Slurm overrides the cluster's slurm section for these nodes; unlike groups become a heterogeneous job.
	Slurm *Group `json:"slurm,omitempty"`
}

// mount is what Slurm adds to a mount's source.
type mount struct {
	// Slurm is an absolute path on the compute nodes. In a container it is bind-mounted; without one it must equal mountPath.
	Slurm string `json:"slurm,omitempty"`
}

// GPUType is what a site calls a type of GPU in Slurm.
type GPUType struct {
	// Gres is the type in Slurm's GRES, as in gres/gpu:h100. Default: the type's own name.
	Gres string `json:"gres,omitempty"`
	// Constraint is a feature of the nodes that have this type, for Slurm clusters without GRES types; added with & to the group's.
	Constraint string `json:"constraint,omitempty"`
	// Vendor is the vendor of the GPUs; Apptainer and Singularity get --nv for nvidia and --rocm for amd. Default: amd if the type has a name of an AMD
	// GPU (mi300x, gfx942, amd...), else nvidia.
	Vendor string `json:"vendor,omitempty" jsonschema:"enum=nvidia,enum=amd,enum=other"`
}

// Section sets how to get nodes from Slurm.
type Section struct {
	// Dir is an absolute directory that the login node and all compute nodes share, and that holds runs/NAME/ATTEMPT/. If other users must not read the
	// driver's log, they must not be able to read this directory. Default: ~/.rayctl on the side of Slurm.
	Dir string `json:"dir,omitempty"`
	// Host is the login node that ssh connects to: a host or alias of the user's OpenSSH configuration, optionally user@host.
	// Default: none, Slurm's commands are here.
	Host string `json:"host,omitempty"`
	// Transport is how Slurm is reached. Default: auto, which is ssh if host is set, slurmrestd if only restUrl is set, else local.
	Transport string `json:"transport,omitempty" jsonschema:"enum=auto,enum=local,enum=ssh,enum=slurmrestd"`
	// SSHOptions are further options for OpenSSH's -o, such as ProxyJump=gate. Default: the user's configuration alone.
	SSHOptions []string `json:"sshOptions,omitempty"`
	// RESTURL is the base URL of slurmrestd, for example http://slurm:6820. The token is taken from restTokenFile or SLURM_JWT.
	RESTURL string `json:"restUrl,omitempty"`
	// RESTTokenFile is a file on the client with slurmrestd's JWT, read again for each request. Default: the environment variable SLURM_JWT.
	RESTTokenFile string `json:"restTokenFile,omitempty" path:"client"`
	// Cluster is the Slurm cluster to use (--clusters) if the site has several: one name of sacctmgr show cluster. In a
	// federation, too, all jobs stay in this cluster. Default: the cluster of the login node.
	Cluster string `json:"cluster,omitempty"`
	// Job is the Slurm job in which the cluster runs: new, a job that is submitted for it, or current, the allocation in which you call rayctl (salloc, an
	// sbatch script). With current, head and workers are steps of the allocation, and rayctl never ends the allocation. Default: new.
	Job string `json:"job,omitempty" jsonschema:"enum=new,enum=current"`
	// Comment is the job's comment, for sites that require a certain comment or use it for accounting. Default: rayctl's, by which ls --others knows
	// clusters.
	Comment string `json:"comment,omitempty"`
	// Dependency is sbatch's --dependency, for example afterok:1234.
	Dependency string `json:"dependency,omitempty"`
	// Begin is sbatch's --begin, for example now+1hour or 2027-01-31T18:00.
	Begin string `json:"begin,omitempty"`
	// ContainerRuntime runs every node in a container of image: pyxis (srun --container-image), apptainer, or singularity if the command has that name.
	// The container sees mounts, the run's directory, job.outputDir, job.cwd, tmpDir, objectSpillingDirectory and caches (~/.cache, HF_HOME and the like)
	// at the paths that they have on the nodes. Default: none.
	ContainerRuntime string `json:"containerRuntime,omitempty" jsonschema:"enum=none,enum=pyxis,enum=apptainer,enum=singularity"`
	// ContainerImage is the image as Pyxis or Apptainer takes it, such as a .sqsh or .sif file. Default: image.
	ContainerImage string `json:"containerImage,omitempty"`
	// ContainerArgs are further arguments of the runtime, such as --writable-tmpfs of `apptainer exec` or --container-mount-home of Pyxis, one each.
	ContainerArgs []string `json:"containerArgs,omitempty"`
	// Python is the Python (3.8 or later) of the nodes, outside of containers, that runs rayctl's own programs there; it needs no Ray. A name is searched
	// in PATH after modules are loaded, and if it is not found, after setup. Default: ray.python; with containerRuntime python3.
	Python string `json:"python,omitempty"`
	// Modules are environment modules loaded on the nodes, outside of containers, before Python is looked for and before setup (module load).
	Modules []string `json:"modules,omitempty"`
	// KeepEnv are names of variables of the login environment that jobs start with, if they are set there. Slurm stores their values, so use secrets for
	// secret values. These variables are always kept: PATH, LD_LIBRARY_PATH, HOME, the locale, what modules need, KRB5CCNAME and the usual variables of
	// proxies (https_proxy, ...); env sets others.
	KeepEnv []string `json:"keepEnv,omitempty"`
	// TmpDir is the directory on each node's own disk below which the node makes its short temporary directory (Ray's sockets allow paths of about 100
	// characters). $SLURM_JOB_ID, $USER and $TMPDIR (or ${...}) in it have the node's values; missing directories of such a path are created, and removed
	// when they are empty again. Default: /tmp.
	TmpDir string `json:"tmpDir,omitempty"`
	// Expose is the address on which keeper and dashboard listen on the head's node: loopback, or node, which is the node's address. With node every
	// request needs the token, but nothing is encrypted; it is for sites whose login nodes or clients may connect to compute nodes. It needs ray.version
	// 2.52 or later. Default: loopback, reached through a step of the job.
	Expose string `json:"expose,omitempty" jsonschema:"enum=loopback,enum=node"`
	// Network selects the network for Ray and the keeper: an interface (ib0), a CIDR (10.1.0.0/16), or several with commas; the first of them that a node
	// has gives the node's address. Default: the address that the node's host name resolves to, or of its default route, or its only address; a worker
	// uses the address from which it connects to the head. Loopback (127.0.1.1) is used only in clusters of one node.
	Network string `json:"network,omitempty"`
	// Ports is the range of ports, such as 20000-21000, on which all processes of the nodes listen: keeper, dashboard, GCS, raylets, agents, workers and
	// drivers. Each Ray node takes up to 72 ports of its machine and 8 for each CPU, and at least 24 and 2 for each CPU, so that several clusters can
	// share the range. The range should not contain ports that nodes use for outgoing connections (sysctl net.ipv4.ip_local_port_range). It needs Ray 2.49
	// or later. Default: any free ports.
	Ports string `json:"ports,omitempty"`
	// NodeLogs sets when Ray's own logs of every node are copied to the run directory. Default: onFailure.
	NodeLogs string `json:"nodeLogs,omitempty" jsonschema:"enum=onFailure,enum=always,enum=never"`
	Group
}

// Group is the request of one component of a Slurm job; a group's values replace the cluster's.
type Group struct {
	// Partition is sbatch's --partition: one, or a list with commas. Default: Slurm's default partition.
	Partition string `json:"partition,omitempty"`
	// Account is sbatch's --account. Default: the user's default account.
	Account string `json:"account,omitempty"`
	// QOS is sbatch's --qos. Default: the association's.
	QOS string `json:"qos,omitempty"`
	// Reservation is sbatch's --reservation.
	Reservation string `json:"reservation,omitempty"`
	// Constraint is sbatch's --constraint: features of nodes.
	Constraint string `json:"constraint,omitempty"`
	// Exclusive takes whole nodes (--exclusive), one worker each; then cpus and memory default to the node's. Default: false.
	Exclusive *bool `json:"exclusive,omitempty"`
	// RequestMemory asks Slurm for memory (--mem, --mem-per-cpu), also for that of whole nodes. With false, for sites that forbid these arguments, memory is
	// only what Ray is told of a node, and Slurm gives what the site's rules give. Default: true.
	RequestMemory *bool `json:"requestMemory,omitempty"`
	// Nodelist is sbatch's --nodelist: nodes that must be used.
	Nodelist string `json:"nodelist,omitempty"`
	// Exclude is sbatch's --exclude: nodes that must not be used.
	Exclude string `json:"exclude,omitempty"`
	// Switches is sbatch's --switches: the largest number of switches that should connect the nodes, and after @ the longest time to wait for that (1@10:00).
	Switches string `json:"switches,omitempty"`
	// ExtraArgs are further arguments of sbatch, such as --licenses=fluent:2, --wckey=project or --mail-type=END, one argument each. A group's are
	// added to the cluster's. Arguments that rayctl sets itself, or that have a key, are errors. With slurmrestd only those are possible for which its API
	// has a field.
	ExtraArgs []string `json:"extraArgs,omitempty"`
}
