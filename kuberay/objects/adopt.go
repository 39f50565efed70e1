package objects

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	kyaml "sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/manifest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// Adopted is a RayCluster's spec that came with the cluster file and is taken as it is.
type Adopted struct {
	spec  rayv1.RayClusterSpec
	newer []manifest.NewerField // of the RayCluster, which spec has no room for
	Token TokenSource
}

// Adopt reads kuberay.rayCluster and fills in what follows from it for the rest of rayctl: the groups of nodes, which decide about the
// gang and are what the keeper waits for. nil: the file has none.
func Adopt(s *spec.ClusterSpec) (*Adopted, error) {
	if kuberayspec.Of(s).RayCluster == nil {
		return nil, nil
	}
	text, err := json.Marshal(kuberayspec.Of(s).RayCluster)
	if err != nil {
		return nil, badCluster("", "%v", err)
	}
	a := &Adopted{}
	if err := a.read(text); err != nil {
		return nil, badCluster("", "%v", err)
	}
	head := &a.spec.HeadGroupSpec.Template
	if len(head.Spec.Containers) == 0 {
		return nil, badCluster("", "the head has no container")
	}
	s.Head.NodeResources = resourcesOf(head)
	kuberayspec.Of(s).KeeperImage = cmp.Or(kuberayspec.Of(s).KeeperImage, s.Head.Image)
	kuberayspec.Of(s).ImagePullPolicy = cmp.Or(kuberayspec.Of(s).ImagePullPolicy, string(rayContainer(head).ImagePullPolicy))
	kuberayspec.Of(s).ImagePullSecrets = append(kuberayspec.Of(s).ImagePullSecrets, head.Spec.ImagePullSecrets...)
	s.Workers = nil
	for i := range a.spec.WorkerGroupSpecs {
		g := &a.spec.WorkerGroupSpecs[i]
		if len(g.Template.Spec.Containers) == 0 {
			return nil, badCluster("", "the group %q has no container", g.GroupName)
		}
		s.Workers = append(s.Workers, groupOf(g, ptr.Deref(a.spec.EnableInTreeAutoscaling, false)))
	}
	a.Token, err = TokenOf(&a.spec)
	return a, err
}

// read decodes the spec. Fields that a newer KubeRay may have are kept for the API server, which refuses what it does not know. A cluster file may have numbers
// where the spec has texts; then all fields must be known.
func (a *Adopted) read(text []byte) error {
	unknown, err := manifest.DecodeNewer(text, &a.spec)
	if err != nil {
		a.spec = rayv1.RayClusterSpec{}
		return kyaml.UnmarshalStrict(text, &a.spec)
	}
	var whole any
	if err := json.Unmarshal(text, &whole); err != nil {
		return err
	}
	a.newer = manifest.NewerFields(whole, unknown)
	for i, f := range a.newer {
		a.newer[i].Path = append(manifest.NewerPath{"spec"}, f.Path...)
	}
	return nil
}

// Newer are the fields of the plan's RayCluster that its Go type does not have.
func (p *Plan) Newer() []manifest.NewerField {
	if p.Adopted == nil {
		return nil
	}
	return p.Adopted.newer
}

func badCluster(hint, format string, args ...any) error {
	return launcher.Fail(runstate.CodeSpec, nil, cmp.Or(hint, "compare it with KubeRay's reference of ray.io/v1"), "the RayCluster cannot be taken: %s", fmt.Sprintf(format, args...))
}

// groupOf counts the nodes of a group. The gang is what is to be there at the start; with an autoscaler the least of it.
func groupOf(g *rayv1.WorkerGroupSpec, elastic bool) spec.WorkerGroup {
	n, least := admit.Pods(g)
	most := int(min(ptr.Deref(g.MaxReplicas, 1<<20), 1<<20)) * int(max(1, g.NumOfHosts))
	if !elastic {
		least, most = n, n
	}
	return spec.WorkerGroup{Name: g.GroupName, Replicas: &n, MinReplicas: &least, MaxReplicas: &most, NodeResources: resourcesOf(&g.Template)}
}

func resourcesOf(t *corev1.PodTemplateSpec) spec.NodeResources {
	c := rayContainer(t)
	cpu := c.Resources.Requests.Cpu()
	if cpu.IsZero() {
		cpu = c.Resources.Limits.Cpu()
	}
	return spec.NodeResources{Image: c.Image, GPUs: int(GPUsOf(*t)), CPUs: units.CPUs(cpu.AsApproximateFloat64())}
}

// TokenSource is where Ray's token is stored, of an adopted cluster or of one that rayctl did not make.
type TokenSource struct {
	Ours        bool // rayctl may give it one
	Secret, Key string
	Value       string // literally in the pod's environment
}

// TokenOf reads spec.authOptions, or the head's environment if the manifest has no authOptions.
func TokenOf(s *rayv1.RayClusterSpec) (TokenSource, error) {
	if o := s.AuthOptions; o != nil {
		switch {
		case o.EnableK8sTokenAuth != nil && *o.EnableK8sTokenAuth:
			return TokenSource{}, noKubernetesTokens()
		case o.Mode != rayv1.AuthModeToken:
			return TokenSource{}, nil
		case o.SecretName != nil && *o.SecretName != "":
			return TokenSource{Secret: *o.SecretName, Key: TokenKey}, nil
		default:
			return TokenSource{Ours: true}, nil
		}
	}
	out := TokenSource{Ours: true}
	for _, c := range s.HeadGroupSpec.Template.Spec.Containers[:1] {
		for _, e := range c.Env {
			switch {
			case e.Name == "RAY_ENABLE_K8S_TOKEN_AUTH" && e.Value == "true":
				return TokenSource{}, noKubernetesTokens()
			case e.Name == "RAY_AUTH_MODE":
				out.Ours = false
			case e.Name == "RAY_AUTH_TOKEN" && e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil:
				out.Secret, out.Key = e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Key
			case e.Name == "RAY_AUTH_TOKEN":
				out.Value = e.Value
			}
		}
	}
	return out, nil
}

func noKubernetesTokens() error {
	return launcher.Fail(runstate.CodeSpec, nil, "leave enableK8sTokenAuth out: authOptions {mode: token} gives the cluster a token of its own",
		"the RayCluster takes Kubernetes' own tokens, which the keeper does not have")
}

// takeManifest adopts the file's RayCluster, if it has one.
func (p *Plan) takeManifest() (err error) {
	if p.Adopted, err = Adopt(p.Spec); p.Adopted == nil || err != nil {
		return err
	}
	p.version = cmp.Or(p.Spec.Ray.Version, p.Adopted.spec.RayVersion, rayVersion(p.Spec))
	if _, err := version.ParseGeneric(p.version); err != nil {
		p.version = unknownVersion
	}
	return nil
}

// unknownVersion is that of an image without one in its tag. All that would follow from it is the token.
const unknownVersion = "0.0.0"

// adoptedCluster is the RayCluster as it was given, with what finds it, ends it and admits it as a whole.
func (p *Plan) adoptedCluster(rc *rayv1.RayCluster) {
	rc.Spec = *p.Adopted.spec.DeepCopy()
	if p.hasToken() && p.Adopted.Token.Ours {
		rc.Spec.AuthOptions = p.authOptions()
	}
	p.Admitter.Mark(rc, p.Spec)
	p.adoptTemplate(&rc.Spec.HeadGroupSpec.Template, HeadGroup)
	for i := range rc.Spec.WorkerGroupSpecs {
		g := &rc.Spec.WorkerGroupSpecs[i]
		g.Replicas = ptr.To(ptr.Deref(g.Replicas, ptr.Deref(g.MinReplicas, 0)))
		p.adoptTemplate(&g.Template, g.GroupName)
	}
}

func (p *Plan) adoptTemplate(t *corev1.PodTemplateSpec, group string) {
	t.Labels = Merged(t.Labels, map[string]string{LabelManagedBy: ManagedBy, LabelName: p.Spec.Name, LabelOwner: labelValue(p.owner)})
	t.Annotations = Merged(p.staying(), t.Annotations)
	p.Admitter.MarkPod(t, p.Spec.Name, group)
}

// chooseAdmitter leaves a RayCluster alone that names a scheduler or a queue itself.
func (p *Plan) chooseAdmitter(served admit.Served) (admit.Admitter, error) {
	if p.Adopted != nil && kuberayspec.Of(p.Spec).Scheduler == "auto" && p.Adopted.hasQueue(p.Spec.Labels) {
		return admit.None{}, nil
	}
	return admit.Choose(p.Spec, served, admit.SuspendedBy(p.Spec.Labels))
}

func (a *Adopted) hasQueue(labels map[string]string) bool {
	for k := range labels {
		if admit.Claims(k) {
			return true
		}
	}
	if named(a.spec.HeadGroupSpec.Template) {
		return true
	}
	for _, g := range a.spec.WorkerGroupSpecs {
		if named(g.Template) {
			return true
		}
	}
	return false
}

func named(t corev1.PodTemplateSpec) bool {
	return t.Spec.SchedulerName != "" && t.Spec.SchedulerName != corev1.DefaultSchedulerName && admit.ByPod(t.Spec.SchedulerName) == admit.None{}
}

// HeadServiceName is the name that KubeRay gives the head's Service.
func HeadServiceName(name string, s *rayv1.RayClusterSpec) string {
	if own := s.HeadGroupSpec.HeadService; own != nil && own.Name != "" {
		return own.Name
	}
	return headService(name)
}

// headAddress is where the keeper finds the head: the name of its Service, and the ports of dashboard and GCS.
func (p *Plan) headAddress() (host string, dashboard, gcs int) {
	s := &rayv1.RayClusterSpec{}
	if p.Adopted != nil {
		s = &p.Adopted.spec
	}
	host = HeadServiceName(p.Spec.Name, s) + "." + p.namespace + ".svc"
	return host, PortParam(s, "dashboard-port", DashboardPort), PortParam(s, "port", gcsPort)
}

// PortParam is a port among the options of `ray start`.
func PortParam(s *rayv1.RayClusterSpec, option string, usual int) int {
	if n, err := strconv.Atoi(s.HeadGroupSpec.RayStartParams[option]); err == nil && n > 0 {
		return n
	}
	return usual
}

// GPUsOf counts the GPUs of a pod.
func GPUsOf(t corev1.PodTemplateSpec) (n float64) {
	for _, c := range t.Spec.Containers {
		for name, q := range c.Resources.Limits {
			if name == "nvidia.com/gpu" || name == "amd.com/gpu" {
				n += q.AsApproximateFloat64()
			}
		}
	}
	return n
}
