package kuberayspec

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/rayctl/rayctl/launcher/spec"
)

// cluster is what KubeRay adds to the cluster file itself.
type cluster struct {
	// KubeRay sets how to get pods from Kubernetes with KubeRay. Its presence chooses the kuberay launcher if nothing else does.
	KubeRay *Section `json:"kuberay,omitempty"`
}

// node is what KubeRay adds to the head and to worker groups.
type node struct {
	// KubeRay adds to the cluster's kuberay section for these nodes.
	KubeRay *Group `json:"kuberay,omitempty"`
	// Patch is a strategic merge patch on these nodes' pod template, as `kubectl patch` takes it. Ray's container is ray-worker, and ray-head in a head that is on no
	// group. KubeRay only.
	Patch spec.Object `json:"patch,omitempty"`
}

// mount is what KubeRay adds to a mount's source.
type mount struct {
	// KubeRay is a Kubernetes volume source (persistentVolumeClaim, hostPath, nfs, ...), as in a pod's volumes without the name.
	KubeRay *corev1.VolumeSource `json:"kuberay,omitempty"`
}

// GPUType is what a site calls a type of GPU on Kubernetes.
type GPUType struct {
	// Resource is the extended resource on Kubernetes. Default: nvidia.com/gpu.
	Resource string `json:"resource,omitempty"`
	// NodeSelector selects the nodes that have this type on Kubernetes.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations are what pods need to run on those nodes.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// Section sets how to get pods from Kubernetes with KubeRay.
type Section struct {
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
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// ImagePullPolicy is the pods' image pull policy. Default: Kubernetes', IfNotPresent or Always for the tag latest.
	ImagePullPolicy string `json:"imagePullPolicy,omitempty" jsonschema:"enum=Always,enum=IfNotPresent,enum=Never"`
	// ServiceAccountName is the service account of Ray's pods. Default: the namespace's default.
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// Keeper is how the cluster ends itself: auto, a Job with one small pod; none for users who may not create Jobs: then the
	// cluster lives until `down`, and its result ends with it. Default: auto.
	Keeper string `json:"keeper,omitempty" jsonschema:"enum=auto,enum=none"`
	// KeeperImage is the image of the keeper's pod; it needs python3 3.8 or later and nothing else. Default: image.
	KeeperImage string `json:"keeperImage,omitempty"`
	// KeeperServiceAccountName is a service account of the namespace for the keeper's pod. If it may look at pods, the keeper ends a start that cannot succeed although
	// nobody watches; if it may also look at nodes, it warns Ray of nodes that are going to be taken away; if it may delete Jobs, the keeper ends the cluster also where a container that admission adds never ends (docs/kuberay-reference.md).
	// Default: none, the pod has no permission.
	KeeperServiceAccountName string `json:"keeperServiceAccountName,omitempty"`
	// KeeperPatch is a strategic merge patch on the pod template of the keeper and the record, as head.patch is on the head's; their containers are
	// named keeper and driver. What they run, and rayctl's own labels, stay.
	KeeperPatch spec.Object `json:"keeperPatch,omitempty"`
	// KeeperQueue is the queue of Kueue (a LocalQueue) for the Jobs of the keeper and the record, where Kueue holds all Jobs. Default: the cluster's own queue (labels:
	// kueue.x-k8s.io/queue-name). They take nothing of its quota for CPU and memory.
	KeeperQueue string `json:"keeperQueue,omitempty"`
	// NodeSelector is the node selector of all pods.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations are the tolerations of all pods.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Annotations are put on the RayCluster and all pods.
	Annotations map[string]string `json:"annotations,omitempty"`
	// RayCluster is the spec of a RayCluster that is taken as it is; rayctl adds labels, the gang, and Ray's token where the file does not set
	// it. `-f raycluster.yaml` sets it. Excludes head, workers, image, env, setup, secrets and mounts, which the RayCluster sets itself.
	RayCluster spec.Object `json:"rayCluster,omitempty"`
	// ConfigMaps are created with the cluster and go with it: data by name and key. One that exists already stays as it is. `-f` sets
	// them from the ConfigMaps that stand beside a RayCluster or RayJob.
	ConfigMaps map[string]map[string]string `json:"configMaps,omitempty"`
	// Patch is a JSON merge patch on the RayCluster. It may not touch spec.workerGroupSpecs, which it would replace whole: use workers[].patch.
	Patch spec.Object `json:"patch,omitempty"`
}

// Group is what a group's pods have besides what the cluster's pods have.
type Group struct {
	// Limits are further resources of the pod's Ray container, such as rdma/ib: 8; requests are the same.
	Limits map[string]spec.Quantity `json:"limits,omitempty"`
	// NodeSelector is added to the cluster's.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations are added to the cluster's.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// PriorityClassName replaces the cluster's.
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// ServiceAccountName replaces the cluster's.
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}
