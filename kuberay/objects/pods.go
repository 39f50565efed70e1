package objects

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

const (
	nodeFiles = "/rayctl" // where pods have our files

	agentPort = 52365
	// Of Ray's agents, beside the GCS's 6379: outside what the kernel and Ray choose from.
	agentGRPCPort, runtimeEnvPort = "6381", "6382"

	healthPath = "/api/healthz"

	// Ray on SIGTERM drains, for as long as it may: an idle node needs 2 s, one whose driver was just stopped takes all that it gets. The
	// nodes of a run are set not to drain, see env.
	jobGrace   = time.Second     // of a run without warnings: the keeper has stopped the driver before, with the job's own grace
	leastGrace = 5 * time.Second // of `up`: others' jobs and Serve may be at work
	mostGrace  = 30 * time.Second

	// A run whose job.grace is at least that warns its job when a pod is taken away: SHORTEST in keeper/rayctl_keeper/run/end/drain.py.
	leastWarning = 5 * time.Second
	afterDrain   = 3 * time.Second // for Ray's processes to end when the time of the drain is over
)

// podTemplate is the pod of one node of a group; KubeRay adds the command, and the head's Service.
func (p *Plan) podTemplate(g spec.NodeGroup, group string) (*corev1.PodTemplateSpec, error) {
	k, own := kuberayspec.Of(p.Spec), kuberayspec.Group{}
	if kuberayspec.GroupOf(g.Sections) != nil {
		own = *kuberayspec.GroupOf(g.Sections)
	}
	t := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: p.labels(), Annotations: Merged(p.staying(), k.Annotations)},
		Spec: corev1.PodSpec{
			ServiceAccountName:            cmp.Or(own.ServiceAccountName, k.ServiceAccountName),
			PriorityClassName:             cmp.Or(own.PriorityClassName, k.PriorityClassName),
			ImagePullSecrets:              k.ImagePullSecrets,
			NodeSelector:                  Merged(k.NodeSelector, own.NodeSelector),
			Tolerations:                   slices.Concat(k.Tolerations, own.Tolerations),
			TerminationGracePeriodSeconds: ptr.To(int64(p.podGrace().Seconds())),
			SecurityContext:               restrictedPod(),
			Containers:                    []corev1.Container{p.rayContainer(g, group, own)},
		},
	}
	p.addGPUType(t, g)
	p.addMounts(t, g)
	p.addStart(t, g, group)
	if !g.Head || !p.Spec.Head.Early { // an early head is none of the gang: Kubernetes' own scheduler places it, as the keeper's pod
		p.Admitter.MarkPod(t, p.Spec.Name, group)
	}
	return patchedTemplate(t, g)
}

// staying are annotations by which Karpenter and the cluster autoscaler do not move a pod to save a node: of a gang one pod is all of it. The file's own
// annotations and patches go before.
func (p *Plan) staying() map[string]string {
	if !p.Spec.IsGang() {
		return nil
	}
	return map[string]string{"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
}

func (p *Plan) rayContainer(g spec.NodeGroup, group string, own kuberayspec.Group) corev1.Container {
	name := "ray-worker"
	if group == HeadGroup {
		name = "ray-head"
	}
	return corev1.Container{
		Name: name, Image: g.Image, ImagePullPolicy: corev1.PullPolicy(kuberayspec.Of(p.Spec).ImagePullPolicy),
		Resources: p.resources(g, own), Env: p.env(g), ReadinessProbe: p.readiness(), SecurityContext: restrictedContainer(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError, // the last lines have the reason of the end
	}
}

func (p *Plan) podGrace() time.Duration {
	switch {
	case p.warns():
		return p.warning() + afterDrain
	case p.Spec.Job.Entrypoint != "":
		return jobGrace
	}
	return min(max(time.Duration(*p.Spec.Job.Grace), leastGrace), mostGrace)
}

// warns reports whether a pod that is taken away is a warning for the job: keeper/rayctl_keeper/rayhook/leave.py.
func (p *Plan) warns() bool { return p.warning() > 0 }

// warning is how long such a pod lives on; 0: it does not warn. A queueing system that holds the cluster may take it back, and only the head tells the keeper so:
// without that the run would be lost, where its next attempt is to wait in the queue.
func (p *Plan) warning() time.Duration {
	grace := time.Duration(*p.Spec.Job.Grace)
	if p.ClusterHeld {
		grace = max(grace, leastWarning)
	}
	if p.Spec.Job.Entrypoint == "" || grace < leastWarning || !p.hasToken() {
		return 0
	}
	return grace
}

// readiness is asked at once and each second: what KubeRay injects where there is none waits 10 s and then 5 s. Ray's node agent
// has the path from 2.53 on; for older ones KubeRay's own probe is kept.
func (p *Plan) readiness() *corev1.Probe {
	if !p.rayAtLeast("2.53.0") {
		return nil
	}
	return &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: healthPath, Port: intstr.FromInt32(agentPort)}},
		InitialDelaySeconds: 1, PeriodSeconds: 1, TimeoutSeconds: 5, FailureThreshold: 10,
	}
}

// resources are requests; memory, GPUs and the group's own are limits too. CPU has no limit: it would throttle the start of Ray.
func (p *Plan) resources(g spec.NodeGroup, own kuberayspec.Group) corev1.ResourceRequirements {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(float64(cpusOf(g))*1000), resource.DecimalSI)
	both := func(name corev1.ResourceName, q resource.Quantity) {
		requests[name], limits[name] = q, q
	}
	if !g.Memory.IsZero() {
		both(corev1.ResourceMemory, g.Memory)
	}
	if g.GPUs > 0 {
		t := kuberayspec.GPUTypeOf(p.Spec, g.GPUType)
		both(corev1.ResourceName(t.Resource), *resource.NewQuantity(int64(g.GPUs), resource.DecimalSI))
	}
	for name, q := range own.Limits {
		both(corev1.ResourceName(name), q)
	}
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}
}

// cpusOf is the CPU request of a pod: 1 unless the file sets it.
func cpusOf(g spec.NodeGroup) units.CPUs {
	if g.CPUs > 0 {
		return g.CPUs
	}
	return 1
}

// rayDefaults are the variables of every Ray that rayctl starts, unless the file sets them: keeper/rayctl_keeper/node/start/raystart.py has the same and the reasons.
var rayDefaults = map[string]string{
	"RAY_agent_register_timeout_ms": "120000", "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "300", "RAY_prestart_worker_first_driver": "0",
}

// env is the environment of `ray start`, so of all that Ray starts. Values that are secret are references.
func (p *Plan) env(g spec.NodeGroup) []corev1.EnvVar {
	values := maps.Clone(rayDefaults)
	switch drain := "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"; {
	case p.warns():
		values[drain] = strconv.Itoa(int(p.warning().Seconds()))
	case p.Spec.Job.Entrypoint != "":
		values[drain] = "0" // in jobGrace nothing drains; `up` may have Serve at work
	}
	maps.Copy(values, p.Spec.Env)
	maps.Copy(values, g.Env)
	if len(g.Labels) > 0 { // KubeRay has a field for them from 1.5 on, and refuses --labels since
		values["RAY_OVERRIDE_LABELS"] = labelsJSON(g.Labels)
	}
	var out []corev1.EnvVar
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, corev1.EnvVar{Name: name, Value: literal(values[name])})
	}
	for _, s := range p.Spec.Secrets {
		source := corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: SecretName(p.Spec.Name)}, Key: envPrefix + s.Name}
		if ref := s.SecretKeyRef; ref != nil {
			source = corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: ref.Name}, Key: ref.Key}
		}
		out = append(out, corev1.EnvVar{Name: s.Name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &source}})
	}
	grace := time.Duration(*p.Spec.Job.Grace).Seconds()
	out = append(out, corev1.EnvVar{Name: "RAY_JOB_STOP_WAIT_TIME_S", Value: strconv.Itoa(max(1, int(grace)))})
	if !p.hasToken() {
		out = append(out, corev1.EnvVar{Name: "RAY_AUTH_MODE", Value: "disabled"})
	}
	return out
}

func labelsJSON(labels map[string]string) string {
	text, err := json.Marshal(labels)
	if err != nil {
		panic("kuberay: a map of text has no JSON: " + err.Error()) // impossible
	}
	return string(text)
}

// literal keeps Kubernetes from expanding $(NAME) in the value of an environment variable.
func literal(value string) string {
	out := make([]rune, 0, len(value))
	for _, r := range value {
		if r == '$' {
			out = append(out, '$')
		}
		out = append(out, r)
	}
	return string(out)
}

func (p *Plan) addGPUType(t *corev1.PodTemplateSpec, g spec.NodeGroup) {
	if g.GPUType == "" || g.GPUs == 0 {
		return
	}
	kind := kuberayspec.GPUTypeOf(p.Spec, g.GPUType)
	t.Spec.NodeSelector = Merged(t.Spec.NodeSelector, kind.NodeSelector)
	t.Spec.Tolerations = slices.Concat(t.Spec.Tolerations, kind.Tolerations)
}

// addMounts adds the file's mounts, a place for the driver's output where the file has none, and /dev/shm, which KubeRay would make as large as the pod's whole memory.
func (p *Plan) addMounts(t *corev1.PodTemplateSpec, g spec.NodeGroup) {
	if shm := shmOf(g); !shm.IsZero() {
		addVolume(t, "shared-mem", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &shm}},
			corev1.VolumeMount{MountPath: "/dev/shm"})
	}
	if dir := p.scratch(); dir != "" {
		addVolume(t, "output", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeMount{MountPath: dir})
	}
	for i, m := range p.Spec.Mounts {
		if kuberayspec.Source(m.Source.Sections) != nil {
			addVolume(t, "mount-"+strconv.Itoa(i), *kuberayspec.Source(m.Source.Sections), corev1.VolumeMount{MountPath: m.MountPath, ReadOnly: m.ReadOnly})
		}
	}
}

const (
	shmShare = 0.3  // of memory, as Ray's own for its object store
	shmUsed  = 0.95 // of /dev/shm, as Ray's own bound for a store whose size it chooses
)

func shmOf(g spec.NodeGroup) resource.Quantity {
	if g.Shm.IsZero() && !g.ObjectStoreMemory.IsZero() {
		return *resource.NewQuantity(int64(float64(g.ObjectStoreMemory.Value())/shmUsed), resource.BinarySI)
	}
	if !g.Shm.IsZero() || g.Memory.IsZero() {
		return g.Shm
	}
	return *resource.NewQuantity(int64(float64(g.Memory.Value())*shmShare), resource.BinarySI)
}

func addVolume(t *corev1.PodTemplateSpec, name string, source corev1.VolumeSource, mount corev1.VolumeMount) {
	mount.Name = name
	t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	rayContainer(t).VolumeMounts = append(rayContainer(t).VolumeMounts, mount)
}

// restrictedPod and restrictedContainer satisfy the "restricted" pod security profile. A group's patch may loosen them.
func restrictedPod() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
}

func restrictedContainer() *corev1.SecurityContext {
	return &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
}

// Merged has the entries of all maps; of those with the same key, the last.
func Merged(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}
