package kuberay

import (
	"maps"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher/spec"
)

// Labels and annotations of all objects.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "rayctl"
	labelName      = "rayctl.io/name"
	labelOwner     = "rayctl.io/owner"
	labelRole      = "rayctl.io/role" // of Jobs and their pods: keeper or record

	roleKeeper = "keeper"
	roleRecord = "record"

	annotationHash    = "rayctl.io/spec-hash"
	annotationOwner   = "rayctl.io/owner"
	annotationCommand = "rayctl.io/command"

	rayClusterLabel  = "ray.io/cluster"
	rayNodeTypeLabel = "ray.io/node-type"
	rayGroupLabel    = "ray.io/group"
	headNodeType     = "head"
)

// Names of a cluster's objects. KubeRay has fixed the head's Service.
func recordName(name string) string   { return name + "-record" }
func secretName(name string) string   { return name + "-rayctl" }
func packagesName(name string) string { return name + "-packages" }
func serviceName(name string) string  { return name + "-keeper" }
func headService(name string) string  { return name + "-head-svc" }

// Keys of the Secret.
const (
	tokenKey     = "auth_token" // KubeRay's name for it
	ordersKey    = "orders.json"
	specKey      = "spec.json"   // what was launched, for comparing
	commitKey    = "commit.json" // its appearance is the commit
	stateKey     = "state.json"  // what the keeper knew, as far as a client has seen: for one that follows it in another pod
	deadlinesKey = "deadlines"   // of the keeper, as it was told to change them; newer than those of the state
	submittedKey = "submitted"   // number of the attempt that was submitted last, as far as a client has seen
	envPrefix    = "env."        // and the name of a secret of the user
)

// meta is what all objects of a cluster have in common.
func (p *plan) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: p.namespace, Labels: p.labels(),
		Annotations: map[string]string{annotationHash: p.hash, annotationOwner: p.owner},
	}
}

// labels are the user's and ours, which win.
func (p *plan) labels() map[string]string {
	out := map[string]string{}
	maps.Copy(out, p.spec.Labels)
	out[labelManagedBy], out[labelName], out[labelOwner] = managedBy, p.spec.Name, labelValue(p.owner)
	return out
}

// roleLabels leave out the user's: queueing systems take Jobs by labels, and keepers must not queue.
func (p *plan) roleLabels(role string) map[string]string {
	return map[string]string{labelManagedBy: managedBy, labelName: p.spec.Name, labelOwner: labelValue(p.owner), labelRole: role}
}

// roleMeta is meta for the two Jobs and what serves them.
func (p *plan) roleMeta(name, role string) metav1.ObjectMeta {
	m := p.meta(name)
	m.Labels = p.roleLabels(role)
	for k, v := range p.spec.Labels {
		if _, ours := m.Labels[k]; !ours && !strings.Contains(k, "kueue.x-k8s.io/") {
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

// userLabels are the labels that the user gave: all but ours and those of the substrate.
func userLabels(all map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range all {
		if k != labelManagedBy && !strings.HasPrefix(k, "rayctl.io/") && !strings.HasPrefix(k, "batch.kubernetes.io/") && !strings.HasPrefix(k, "volcano.sh/") &&
			!strings.HasPrefix(k, "ray.io/") {
			out[k] = v
		}
	}
	return out
}

var versionTag = regexp.MustCompile(`:(\d+\.\d+\.\d+)([.-][^/]*)?$`)

// rayVersion is ray.version, or what the tag of an image like rayproject/ray:2.60.0-py311 says; "" if neither does.
func rayVersion(s *spec.ClusterSpec) string {
	if s.Ray.Version != "" {
		return s.Ray.Version
	}
	for _, g := range s.NodeGroups() {
		if m := versionTag.FindStringSubmatch(g.Image); m != nil {
			return m[1]
		}
	}
	return ""
}
