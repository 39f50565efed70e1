package objects

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
)

// Keys of the Secret, and the files of the pods that they become.
const (
	nodeKey  = "node.sh"  // what pods do before Ray starts
	waitKey  = "wait.sh"  // keeps KubeRay's init container short
	setupKey = "setup.sh" // spec.setup

	zipKey = keeperzip.File // what pods run of rayctl

	bashEnv = "BASH_ENV" // names a file that bash reads first, also for `bash -c` (bash's manual, "Invocation")
)

// Names of containers in the keeper's and the record's pods.
const (
	KeeperContainer = "keeper"
	RecordContainer = "driver" // whose log is the driver's

	runDir = "/run/rayctl" // the keeper's run directory

	// AnnotationKeeper on a record is the UID of the Job whose record it is.
	AnnotationKeeper = "rayctl.io/keeper"

	// StartDeadline is how long a launch without a keeper outlives its client, see Provisional.
	StartDeadline = 5 * time.Minute

	// leastKeep lets whoever watched a cluster with `keep: 0` read its result.
	leastKeep = time.Minute
)

// KeeperJob owns the cluster: when its pod has ended, Kubernetes deletes it and all that it owns. It is created suspended, so
// that nothing counts its time before its launch has made what it needs; where a queue releases it earlier, its pod waits for the Secret.
func (p *Plan) KeeperJob() *batchv1.Job {
	m := p.jobMeta(p.Spec.Name, RoleKeeper)
	if p.command != "" {
		m.Annotations[annotationCommand] = p.command
	}
	job := &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: m,
		Spec: batchv1.JobSpec{
			Suspend: ptr.To(true), TTLSecondsAfterFinished: ptr.To(int32(0)),
			BackoffLimit: ptr.To(int32(1000)), PodFailurePolicy: ignoreDisruptions(),
			Template: p.HelperPod(RoleKeeper, corev1.Container{
				Name: KeeperContainer, Command: []string{"python3", "-E", "-s", nodeFiles + "/" + zipKey, keeperzip.Pod, nodeFiles, runDir},
				Ports:        []corev1.ContainerPort{{Name: "keeper", ContainerPort: KeeperPort}},
				VolumeMounts: []corev1.VolumeMount{{Name: "rayctl", MountPath: nodeFiles, ReadOnly: true}, {Name: "run", MountPath: runDir}},
			}),
		},
	}
	if account := kuberayspec.Of(p.Spec).KeeperServiceAccountName; account != "" {
		pod := &job.Spec.Template.Spec
		pod.ServiceAccountName, pod.AutomountServiceAccountToken = account, ptr.To(true)
		for i := range pod.Containers {
			if pod.Containers[i].Name == KeeperContainer { // with which it may end what owns the cluster, see keeper/rayctl_keeper/kubernetes/job.py
				pod.Containers[i].Env = append(pod.Containers[i].Env, corev1.EnvVar{Name: "RAYCTL_KEEPER_JOB", Value: p.Spec.Name}, corev1.EnvVar{
					Name: "RAYCTL_KEEPER_JOB_UID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + batchv1.ControllerUidLabel + "']"}},
				})
			}
		}
	}
	addOwn(&job.Spec.Template.Spec, []corev1.Volume{
		{Name: "rayctl", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: p.keeperFiles()}}},
		{Name: "run", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	})
	p.withPackages(&job.Spec.Template.Spec)
	job.Spec.ActiveDeadlineSeconds = ptr.To(int64(p.bound().Seconds()))
	return job
}

// addOwn adds our volumes to those of kuberay.keeperPatch; one of theirs that has a name of ours goes.
func addOwn(pod *corev1.PodSpec, ours []corev1.Volume) {
	theirs := slices.DeleteFunc(pod.Volumes, func(v corev1.Volume) bool {
		return slices.ContainsFunc(ours, func(o corev1.Volume) bool { return o.Name == v.Name })
	})
	pod.Volumes = slices.Concat(ours, theirs)
}

// keeperFiles is the Secret without the user's secrets, which the keeper has no use for. The pod waits for what a launch puts there. What clients note later is
// there only for pods that follow another.
func (p *Plan) keeperFiles() []corev1.VolumeProjection {
	launched := append([]string{OrdersKey, TokenKey}, slices.Sorted(maps.Keys(programs()))...)
	noted := []string{CommitKey, StateKey, SubmittedKey, DeadlinesKey}
	return []corev1.VolumeProjection{p.fromSecret(launched, false), p.fromSecret(noted, true)}
}

func (p *Plan) fromSecret(keys []string, optional bool) corev1.VolumeProjection {
	var items []corev1.KeyToPath
	for _, name := range keys {
		items = append(items, corev1.KeyToPath{Key: name, Path: name})
	}
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: SecretName(p.Spec.Name)}, Items: items, Optional: &optional}}
}

// jobMeta is roleMeta for the two Jobs themselves.
func (p *Plan) jobMeta(name, role string) metav1.ObjectMeta {
	m := p.roleMeta(name, role)
	if p.HelperQueue != "" {
		m.Labels[admit.HelperQueueLabel()] = p.HelperQueue
	}
	return m
}

// RecordJob waits for the keeper's result, prints the driver's log, and keeps exit code and timeline as its termination message.
func (p *Plan) RecordJob() *batchv1.Job {
	keep := max(time.Duration(*p.Spec.Lifetime.Keep), leastKeep)
	job := &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: p.jobMeta(RecordName(p.Spec.Name), RoleRecord),
		Spec: batchv1.JobSpec{
			TTLSecondsAfterFinished: ptr.To(int32(keep.Seconds())),
			BackoffLimit:            ptr.To(int32(6)), PodFailurePolicy: ignoreDisruptions(),
			Template: p.HelperPod(RoleRecord, corev1.Container{
				Name: RecordContainer, Command: []string{"python3", "-E", "-s", nodeFiles + "/" + zipKey, keeperzip.Record, p.keeperAddress(), nodeFiles + "/" + TokenKey},
				VolumeMounts: []corev1.VolumeMount{{Name: "rayctl", MountPath: nodeFiles, ReadOnly: true}, {Name: "tmp", MountPath: "/tmp"}},
			}),
		},
	}
	if p.OwnerUID != "" {
		job.Annotations[AnnotationKeeper] = string(p.OwnerUID)
	}
	addOwn(&job.Spec.Template.Spec, []corev1.Volume{
		{Name: "rayctl", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: SecretName(p.Spec.Name), Optional: ptr.To(true), // after the cluster's end it is deleted: the pod does not wait for ever, and the record knows by it
			Items: []corev1.KeyToPath{{Key: zipKey, Path: zipKey}, {Key: TokenKey, Path: TokenKey}},
		}}},
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	})
	return job
}

// Provisional is a Job as it is until a keeper answers: Kubernetes ends it soon, and does not keep it. A client that lives moves the deadline;
// after one that died there may be no keeper to end what it has left, if not even the keeper's pod can start.
func Provisional(job *batchv1.Job) *batchv1.Job {
	job.Spec.ActiveDeadlineSeconds = ptr.To(int64(StartDeadline.Seconds()))
	job.Spec.TTLSecondsAfterFinished = ptr.To(min(*job.Spec.TTLSecondsAfterFinished, int32(leastKeep.Seconds())))
	return job
}

// helperRatio is what the limits of keeper and record are of their requests: a LimitRange may bound that (maxLimitRequestRatio), also for limits that it sets
// itself where there are none, and a quota on limits refuses pods without.
const helperRatio = 2

// helperResources are alike for keeper and record. Python starts in a fraction of a second of CPU, and both stream whatever is large. In a queue they
// request nothing of its quota: it admits them before their cluster, and those of several launches would take what then no cluster fits into.
func (p *Plan) helperResources() corev1.ResourceRequirements {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")}
	limits := corev1.ResourceList{}
	for name, q := range requests {
		q.Mul(helperRatio)
		limits[name] = q
		if p.HelperQueue != "" {
			requests[name] = resource.Quantity{Format: q.Format}
		}
	}
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}
}

// HelperPod is the small pod of keeper and record. It has everything that the file gives all pods, except the annotation against
// eviction by autoscalers: this pod may move.
func (p *Plan) HelperPod(role string, c corev1.Container) corev1.PodTemplateSpec {
	k := kuberayspec.Of(p.Spec)
	c.Image, c.ImagePullPolicy = cmp.Or(k.KeeperImage, p.Spec.NodeGroups()[0].Image), corev1.PullPolicy(k.ImagePullPolicy)
	c.SecurityContext, c.Resources = restrictedContainer(), p.helperResources()
	labels, annotations := outsideMeshes(p.roleLabels(role), k.Annotations)
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
			ImagePullSecrets: k.ImagePullSecrets, NodeSelector: k.NodeSelector, Tolerations: k.Tolerations, PriorityClassName: k.PriorityClassName,
			TerminationGracePeriodSeconds: ptr.To(int64(10)), SecurityContext: restrictedPod(), Containers: []corev1.Container{c},
		},
	}
	if patched, err := p.patchedHelper(&t); err == nil { // NewPlan has tried it
		return *patched
	}
	return t
}

// checkHelpers tries the patch on the pods of keeper and record. It names their container `keeper` and `driver`, so each is tried.
func (p *Plan) checkHelpers() error {
	for role, name := range map[string]string{RoleKeeper: KeeperContainer, RoleRecord: RecordContainer} {
		t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.roleLabels(role)}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name}}}}
		if _, err := p.patchedHelper(&t); err != nil {
			return err
		}
	}
	return nil
}

// Istio takes the label before the annotation, and old versions know only the annotation.
const (
	istioInject   = "sidecar.istio.io/inject"
	linkerdInject = "linkerd.io/inject"
)

// LinkerdEnds is the annotation of a pod whose Linkerd proxy ends when the pod asks it to, with LinkerdEnabled for that: since 2024 it does not otherwise (linkerd2,
// PR 12705, "proxy-admin-shutdown").
const (
	LinkerdEnds    = "config.linkerd.io/proxy-admin-shutdown"
	LinkerdEnabled = "enabled"
)

// Annotations of a pod that is to be in the mesh, as the cluster file has them.
const (
	InIstio   = istioInject + `: "true"`
	InLinkerd = linkerdInject + ": enabled"
)

// outsideMeshes keeps Istio and Linkerd from adding a proxy to the pods of keeper and record, which would keep their Jobs from ending. Annotations of the file
// go before: where a mesh lets in nothing from outside they must be in it. Where there is a proxy all the same keeper and record ask it to end.
func outsideMeshes(labels, own map[string]string) (withLabel, annotations map[string]string) {
	annotations = Merged(map[string]string{istioInject: "false", linkerdInject: "disabled", LinkerdEnds: LinkerdEnabled}, own)
	if _, says := own[istioInject]; !says {
		labels[istioInject] = "false"
	}
	return labels, annotations
}

// ignoreDisruptions lets evictions and preemption not count as failures.
func ignoreDisruptions() *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action:          batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
	}}}
}

// Secret holds the token, the orders, the programs of our pods, and the user's secrets.
func (p *Plan) Secret() (*corev1.Secret, error) {
	s := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: p.roleMeta(SecretName(p.Spec.Name), RoleKeeper),
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{TokenKey: []byte(p.Token)},
	}
	s.OwnerReferences = p.ownedWhole()
	for name, value := range p.secrets {
		s.Data[envPrefix+name] = []byte(value)
	}
	if p.Spec.Setup != "" {
		s.Data[setupKey] = []byte(p.Spec.Setup + "\n")
	}
	for key, document := range map[string]any{OrdersKey: p.Orders(), SpecKey: p.Spec} {
		text, err := json.Marshal(document)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", key, err)
		}
		s.Data[key] = text
	}
	for name, content := range programs() {
		s.Data[name] = content
	}
	return s, nil
}

// programs are what our pods run.
func programs() map[string][]byte {
	out := map[string][]byte{zipKey: keeperzip.Bytes()}
	for _, name := range []string{nodeKey, waitKey} {
		out[name] = scriptFile(name)
	}
	return out
}

// Service gives the keeper a name in DNS.
func (p *Plan) Service() *corev1.Service {
	s := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: p.roleMeta(ServiceName(p.Spec.Name), RoleKeeper),
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: map[string]string{LabelName: p.Spec.Name, LabelRole: RoleKeeper},
			Ports: []corev1.ServicePort{{Name: "keeper", Port: KeeperPort}},
		},
	}
	s.OwnerReferences = p.ownedWhole()
	return s
}
