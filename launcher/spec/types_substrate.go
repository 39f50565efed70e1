package spec

import corev1 "k8s.io/api/core/v1"

// VolumeSource is a Kubernetes volume source: a pod's volume without the name.
type VolumeSource = corev1.VolumeSource

// Toleration is a Kubernetes toleration, as in a pod.
type Toleration = corev1.Toleration

// LocalObjectReference is a Kubernetes reference by name: {name: NAME}.
type LocalObjectReference = corev1.LocalObjectReference

// Object is a free YAML or JSON object that is passed on.
type Object map[string]any

// Slurm says how to get nodes from Slurm.
type Slurm struct {
	// Dir is an absolute directory that the login node and all compute nodes share, and that holds runs/NAME/ATTEMPT/. It must not be
	// readable by others' users if the driver's log is not to be. Default: ~/.rayctl on the side of Slurm.
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
	// Dependency is sbatch's --dependency, for example afterok:1234.
	Dependency string `json:"dependency,omitempty"`
	// Begin is sbatch's --begin, for example now+1hour or 2027-01-31T18:00.
	Begin string `json:"begin,omitempty"`
	// ContainerRuntime runs every node in a container of image: pyxis (srun --container-image) or apptainer. Default: none.
	ContainerRuntime string `json:"containerRuntime,omitempty" jsonschema:"enum=none,enum=pyxis,enum=apptainer"`
	// ContainerImage is the image as Pyxis or Apptainer takes it, such as a .sqsh or .sif file. Default: image.
	ContainerImage string `json:"containerImage,omitempty"`
	// Modules are environment modules loaded on every node before setup (module load).
	Modules []string `json:"modules,omitempty"`
	// TmpDir is the directory on each node's own disk below which the node makes its short temporary directory (Ray's sockets
	// allow paths of about 100 characters). Default: /tmp.
	TmpDir string `json:"tmpDir,omitempty"`
	// Expose says where keeper and dashboard listen on the head's node: loopback, or node, which is its address, with the token asked for on every
	// request but without encryption: for sites whose login nodes or clients may connect to compute nodes. It needs ray.version 2.52 or later.
	// Default: loopback, reached through a step of the job.
	Expose string `json:"expose,omitempty" jsonschema:"enum=loopback,enum=node"`
	// NodeLogs says when Ray's own logs of every node are copied to the run directory. Default: onFailure.
	NodeLogs string `json:"nodeLogs,omitempty" jsonschema:"enum=onFailure,enum=always,enum=never"`
	SlurmGroup
}

// SlurmGroup is what a part of a Slurm job asks for; a group's values replace the cluster's.
type SlurmGroup struct {
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
	// Nodelist is sbatch's --nodelist: nodes that must be used.
	Nodelist string `json:"nodelist,omitempty"`
	// Exclude is sbatch's --exclude: nodes that must not be used.
	Exclude string `json:"exclude,omitempty"`
	// Switches is sbatch's --switches: the most switches that should connect the nodes, with @ the longest wait for it (1@10:00).
	Switches string `json:"switches,omitempty"`
	// ExtraArgs are further arguments of sbatch, such as --segment=2, one argument each. A group's are added to the cluster's.
	ExtraArgs []string `json:"extraArgs,omitempty"`
}

// KubeRay says how to get pods from Kubernetes with KubeRay.
type KubeRay struct {
	// Kubeconfig is the client's configuration file. Default: KUBECONFIG, ~/.kube/config, or the pod's service account, as kubectl.
	Kubeconfig string `json:"kubeconfig,omitempty" path:"client"`
	// Context is the context of the kubeconfig. Default: its current context.
	Context string `json:"context,omitempty"`
	// Namespace is where everything is created. Default: the context's namespace.
	Namespace string `json:"namespace,omitempty"`
	// Scheduler is who admits the gang: volcano (a PodGroup) or none. Default: auto, volcano where the API server serves it.
	Scheduler string `json:"scheduler,omitempty" jsonschema:"enum=auto,enum=volcano,enum=none"`
	// Queue is Volcano's queue. Default: Volcano's, named default.
	Queue string `json:"queue,omitempty"`
	// PriorityClassName is the priority class of the pods and the PodGroup. Default: the cluster's.
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// ImagePullSecrets are Secrets of the namespace for a private registry.
	ImagePullSecrets []LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// ImagePullPolicy is the pods' image pull policy. Default: Kubernetes', IfNotPresent or Always for the tag latest.
	ImagePullPolicy string `json:"imagePullPolicy,omitempty" jsonschema:"enum=Always,enum=IfNotPresent,enum=Never"`
	// ServiceAccountName is the service account of Ray's pods. Default: the namespace's default.
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// Keeper is how the cluster ends itself: auto, a Job with one small pod; none for users who may not create Jobs: then the
	// cluster lives until `down`, and its result ends with it. Default: auto.
	Keeper string `json:"keeper,omitempty" jsonschema:"enum=auto,enum=none"`
	// KeeperImage is the image of the keeper's pod; it needs python3 3.9 or later and nothing else. Default: image.
	KeeperImage string `json:"keeperImage,omitempty"`
	// NodeSelector is the node selector of all pods.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations are the tolerations of all pods.
	Tolerations []Toleration `json:"tolerations,omitempty"`
	// Annotations are put on the RayCluster and all pods.
	Annotations map[string]string `json:"annotations,omitempty"`
	// RayCluster is the spec of a RayCluster that is taken as it is; rayctl adds labels, the gang, and Ray's token where nothing is said about
	// it. `-f raycluster.yaml` sets it. Excludes head, workers, image, env, setup, secrets and mounts, which it says itself.
	RayCluster Object `json:"rayCluster,omitempty"`
	// ConfigMaps are created with the cluster and go with it: data by name and key. One that exists already stays as it is. `-f` sets
	// them from the ConfigMaps that stand beside a RayCluster or RayJob.
	ConfigMaps map[string]map[string]string `json:"configMaps,omitempty"`
	// Patch is a JSON merge patch on the RayCluster. It may not touch spec.workerGroupSpecs, which it would replace whole: use workers[].patch.
	Patch Object `json:"patch,omitempty"`
}

// KubeRayGroup is what a group's pods have besides what the cluster's pods have.
type KubeRayGroup struct {
	// Limits are further resources of the pod's Ray container, such as rdma/ib: 8; requests are the same.
	Limits map[string]Quantity `json:"limits,omitempty"`
	// NodeSelector is added to the cluster's.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations are added to the cluster's.
	Tolerations []Toleration `json:"tolerations,omitempty"`
	// PriorityClassName replaces the cluster's.
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// ServiceAccountName replaces the cluster's.
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}

// Local says how to run Ray on this machine.
type Local struct {
	// Packages are Python packages, as pip takes them, that rayctl installs beside Ray in the environment it makes, such as jax==0.7.0
	// or ray[train]. An error with ray.python, whose environment is yours. Default: none.
	Packages []string `json:"packages,omitempty"`
	// TmpDir is the directory below which each node makes its short temporary directory (Ray's sockets allow paths of about 100
	// characters). Default: TMPDIR, or /tmp.
	TmpDir string `json:"tmpDir,omitempty" path:"client"`
}

// GPUType is what a site calls a type of GPU.
type GPUType struct {
	// Gres is the type in Slurm's GRES, as in gres/gpu:h100. Default: the type's own name.
	Gres string `json:"gres,omitempty"`
	// Constraint is a feature of the nodes that have this type, for Slurm clusters without GRES types; added with & to the group's.
	Constraint string `json:"constraint,omitempty"`
	// Resource is the extended resource on Kubernetes. Default: nvidia.com/gpu.
	Resource string `json:"resource,omitempty"`
	// NodeSelector selects the nodes that have this type on Kubernetes.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations are what pods need to run on those nodes.
	Tolerations []Toleration `json:"tolerations,omitempty"`
	// AcceleratorType is Ray's accelerator_type, as in ray.util.accelerators. Default: the type's name in capitals.
	AcceleratorType string `json:"acceleratorType,omitempty"`
}
