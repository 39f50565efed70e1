package objects

import (
	"maps"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Labels and annotations of all objects.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "rayctl"
	LabelName      = "rayctl.io/name"
	LabelOwner     = "rayctl.io/owner"
	LabelRole      = "rayctl.io/role" // of Jobs and their pods: keeper or record

	RoleKeeper = "keeper"
	RoleRecord = "record"

	AnnotationHash    = "rayctl.io/spec-hash"
	AnnotationOwner   = "rayctl.io/owner"
	annotationCommand = "rayctl.io/command"

	RayClusterLabel  = "ray.io/cluster"
	RayNodeTypeLabel = "ray.io/node-type"
	RayGroupLabel    = "ray.io/group"
	HeadNodeType     = "head"
)

// RecordName is the name of a cluster's record.
func RecordName(name string) string { return name + "-record" }

// SecretName is the name of the Secret of a cluster.
func SecretName(name string) string { return name + "-rayctl" }

// packagesName is the name of the Secret of its packages.
func packagesName(name string) string { return name + "-packages" }

// ServiceName is the name of the keeper's Service.
func ServiceName(name string) string { return name + "-keeper" }

// headService is the name of the head's Service, which KubeRay has fixed.
func headService(name string) string { return name + "-head-svc" }

// Keys of the Secret.
const (
	TokenKey     = "auth_token" // KubeRay's name for it
	OrdersKey    = "orders.json"
	SpecKey      = "spec.json"   // what was launched, for comparing
	CommitKey    = "commit.json" // its appearance is the commit
	StateKey     = "state.json"  // the keeper's last state document that a client has seen, for a keeper that replaces it in another pod
	DeadlinesKey = "deadlines"   // of the keeper, after the last change that a client requested; newer than those of the state
	SubmittedKey = "submitted"   // number of the attempt that was submitted last, as far as a client has seen
	envPrefix    = "env."        // and the name of a secret of the user
)

// IsSecretKey reports whether a key of the Secret has a value that is secret.
func IsSecretKey(key string) bool { return key == TokenKey || strings.HasPrefix(key, envPrefix) }

// meta is what all objects of a cluster have in common.
func (p *Plan) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: p.namespace, Labels: p.labels(),
		Annotations: map[string]string{AnnotationHash: p.Hash, AnnotationOwner: p.owner},
	}
}

// labels are the user's and ours, which win.
func (p *Plan) labels() map[string]string {
	out := map[string]string{}
	maps.Copy(out, p.Spec.Labels)
	out[LabelManagedBy], out[LabelName], out[LabelOwner] = ManagedBy, p.Spec.Name, labelValue(p.owner)
	return out
}

// roleLabels leave out the user's: queueing systems take Jobs by labels, and keepers must not queue.
func (p *Plan) roleLabels(role string) map[string]string {
	return map[string]string{LabelManagedBy: ManagedBy, LabelName: p.Spec.Name, LabelOwner: labelValue(p.owner), LabelRole: role}
}

// roleMeta is meta for the two Jobs and what serves them.
func (p *Plan) roleMeta(name, role string) metav1.ObjectMeta {
	m := p.meta(name)
	m.Labels = p.roleLabels(role)
	for k, v := range p.Spec.Labels {
		if _, ours := m.Labels[k]; !ours && !admit.QueuesObject(k) {
			m.Labels[k] = v
		}
	}
	return m
}

var notInLabels = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// labelValue makes a label's value of any text: at most 63 characters, some replaced.
func labelValue(text string) string {
	text = notInLabels.ReplaceAllString(text, "_")
	return strings.Trim(text[:min(63, len(text))], "._-")
}

// UserLabels are the labels that the user gave: all but ours and those of the substrate.
func UserLabels(all map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range all {
		if k != LabelManagedBy && !strings.HasPrefix(k, "rayctl.io/") && !strings.HasPrefix(k, "batch.kubernetes.io/") && !admit.IsLabel(k) &&
			!strings.HasPrefix(k, "ray.io/") {
			out[k] = v
		}
	}
	return out
}

// rayVersion is ray.version, or the version in the tag of an image like rayproject/ray:2.60.0-py311; "" if neither has one.
func rayVersion(s *spec.ClusterSpec) string {
	if s.Ray.Version != "" {
		return s.Ray.Version
	}
	for _, g := range s.NodeGroups() {
		if version := spec.RayOfImage(g.Image); version != "" {
			return version
		}
	}
	return ""
}

// AnnotationCommitted marks the record of a launch that was committed: its pod may never have reached the keeper, and the Secret's note of the commit ends with
// the keeper's Job.
const AnnotationCommitted = "rayctl.io/committed"

// KeeperSelector finds the pods of a cluster's keeper.
func KeeperSelector(name string) string {
	return LabelName + "=" + name + "," + LabelRole + "=" + RoleKeeper
}

// HeadSelector finds the head's pod.
func HeadSelector(name string) string {
	return RayClusterLabel + "=" + name + "," + RayNodeTypeLabel + "=" + HeadNodeType
}

// AnnotationResult has the result of a cluster whose keeper could not report one; the client that ended the cluster writes it.
const AnnotationResult = "rayctl.io/result"
