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
	nodeFiles = "/rayctl" // the directory with rayctl's files in a pod

	agentPort = 52365
	// Ports of Ray's agents, next to the GCS's 6379: the kernel and Ray choose their own ports from other ranges.
	agentGRPCPort, runtimeEnvPort = "6381", "6382"

	healthPath = "/api/healthz"

	// Ray's containers, by which a patch names them.
	headContainer, workerContainer = "ray-head", "ray-worker"

	// The time that a pod has between SIGTERM and SIGKILL. At SIGTERM Ray drains the node: an idle node needs 2 s for that; a node whose driver was just
	// stopped uses all the time that it has. The nodes of a run do not drain, see env.
	jobGrace   = time.Second     // for a run without warnings: the keeper has already stopped the driver, with job.grace
	leastGrace = 5 * time.Second // for `up`, on whose nodes jobs and Serve may still run
	mostGrace  = 30 * time.Second

	// A job with at least this job.grace is warned when one of its pods is taken away: SHORTEST in keeper/rayctl_keeper/run/end/drain.py.
	leastWarning = 5 * time.Second
	afterDrain   = 3 * time.Second // the time that Ray's processes have to end after the drain
)

// podTemplate is the template of a group's pods, one pod for each node; KubeRay adds the command, and makes the head's Service.
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
	if !g.Head || !p.Spec.Head.Early { // an early head does not belong to the gang: Kubernetes' own scheduler places its pod, as it places the keeper's
		p.Admitter.MarkPod(t, p.Spec.Name, group)
	}
	return patchedTemplate(t, g)
}

// staying returns the annotations that keep Karpenter and the cluster autoscaler from moving a pod to save a node: without one of its pods, a gang is lost. The
// file's own annotations and patches override them.
func (p *Plan) staying() map[string]string {
	if !p.Spec.IsGang() {
		return nil
	}
	return map[string]string{"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
}

func (p *Plan) rayContainer(g spec.NodeGroup, group string, own kuberayspec.Group) corev1.Container {
	name := workerContainer
	if group == HeadGroup {
		name = headContainer
	}
	return corev1.Container{
		Name: name, Image: g.Image, ImagePullPolicy: corev1.PullPolicy(kuberayspec.Of(p.Spec).ImagePullPolicy),
		Resources: p.resources(g, own), Env: p.env(g), ReadinessProbe: p.readiness(), SecurityContext: restrictedContainer(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError, // the last lines of the log say why the container ended
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

// warns reports whether a pod that is being taken away warns the job: keeper/rayctl_keeper/rayhook/leave.py.
func (p *Plan) warns() bool { return p.warning() > 0 }

// warning is how long a pod continues after it has warned the job; 0: pods do not warn. A queueing system that admitted the cluster may suspend it, and only the
// head's pod can tell the keeper: without that warning the run would end as lost, but its next attempt is to wait in the queue.
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

// readiness is a probe after the first second and then in each second: the probe that KubeRay would inject waits 10 s, and 5 s between tries. Ray's node agent
// serves the path since 2.53; older versions keep KubeRay's probe.
func (p *Plan) readiness() *corev1.Probe {
	if !p.rayAtLeast("2.53.0") {
		return nil
	}
	return &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: healthPath, Port: intstr.FromInt32(agentPort)}},
		InitialDelaySeconds: 1, PeriodSeconds: 1, TimeoutSeconds: 5, FailureThreshold: 10,
	}
}

// resources returns the requests and limits of a Ray container. Memory, GPUs and kuberay.limits are both requests and limits. CPU has no limit, because that would
// throttle the start of Ray.
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

// rayDefaults are variables that every Ray gets, unless the file sets them. keeper/rayctl_keeper/node/start/raystart.py has the same ones, and the reasons.
var rayDefaults = map[string]string{
	"RAY_agent_register_timeout_ms": "120000", "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "300", "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60", "RAY_prestart_worker_first_driver": "0",
}

// env is the environment of `ray start`, which all processes of Ray inherit. Secret values are references to Secrets.
func (p *Plan) env(g spec.NodeGroup) []corev1.EnvVar {
	values := maps.Clone(rayDefaults)
	switch drain := "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"; {
	case p.warns():
		values[drain] = strconv.Itoa(int(p.warning().Seconds()))
	case p.Spec.Job.Entrypoint != "":
		values[drain] = "0" // jobGrace is too short for a drain
	}
	maps.Copy(values, p.Spec.Env)
	maps.Copy(values, g.Env)
	if len(g.Labels) > 0 { // not by --labels, which KubeRay refuses since 1.5
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

// addMounts adds the file's mounts, a directory for the driver's output if the file has none, and /dev/shm: KubeRay's own would be as large as the pod's memory.
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
	shmShare = 0.3  // the part of memory that /dev/shm gets; Ray takes the same part for its object store
	shmUsed  = 0.95 // the part of /dev/shm that the object store may fill; Ray's own bound for a store whose size it chooses
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

// Merged has the entries of all maps; if several maps have a key, the last one counts.
func Merged(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}
