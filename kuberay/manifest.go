package kuberay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	kyaml "sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/kuberay/gang"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// adopted is a RayCluster's spec that came with the cluster file and is taken as it is.
type adopted struct {
	spec  rayv1.RayClusterSpec
	token tokenSource
}

// adopt reads kuberay.rayCluster and fills in what follows from it for the rest of rayctl: the groups of nodes, which decide about the
// gang and are what the keeper waits for. nil: the file has none.
func adopt(s *spec.ClusterSpec) (*adopted, error) {
	if s.KubeRay.RayCluster == nil {
		return nil, nil
	}
	text, err := json.Marshal(s.KubeRay.RayCluster)
	if err != nil {
		return nil, badCluster("%v", err)
	}
	a := &adopted{}
	if err := kyaml.UnmarshalStrict(text, &a.spec); err != nil {
		return nil, badCluster("%v", err)
	}
	head := &a.spec.HeadGroupSpec.Template
	if len(head.Spec.Containers) == 0 {
		return nil, badCluster("the head has no container")
	}
	s.Head.NodeResources = resourcesOf(head)
	s.KubeRay.KeeperImage = cmp.Or(s.KubeRay.KeeperImage, s.Head.Image)
	s.KubeRay.ImagePullPolicy = cmp.Or(s.KubeRay.ImagePullPolicy, string(rayContainer(head).ImagePullPolicy))
	s.KubeRay.ImagePullSecrets = append(s.KubeRay.ImagePullSecrets, head.Spec.ImagePullSecrets...)
	s.Workers = nil
	for i := range a.spec.WorkerGroupSpecs {
		g := &a.spec.WorkerGroupSpecs[i]
		if len(g.Template.Spec.Containers) == 0 {
			return nil, badCluster("the group %q has no container", g.GroupName)
		}
		s.Workers = append(s.Workers, groupOf(g, ptr.Deref(a.spec.EnableInTreeAutoscaling, false)))
	}
	a.token, err = tokenOf(&a.spec)
	return a, err
}

func badCluster(format string, args ...any) error {
	return launcher.Fail(runstate.CodeSpec, nil, "compare it with KubeRay's reference of ray.io/v1", "the RayCluster cannot be taken: %s", fmt.Sprintf(format, args...))
}

// groupOf counts the nodes of a group. The gang is what is to be there at the start; with an autoscaler the least of it.
func groupOf(g *rayv1.WorkerGroupSpec, elastic bool) spec.WorkerGroup {
	n, least := gang.Pods(g)
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
	return spec.NodeResources{Image: c.Image, GPUs: int(gpusOf(*t)), CPUs: spec.CPUs(cpu.AsApproximateFloat64())}
}

// tokenSource says where Ray's token of an adopted or of somebody else's cluster is.
type tokenSource struct {
	ours        bool // rayctl may give it one
	secret, key string
	value       string // literally in the pod's environment
}

// tokenOf reads spec.authOptions, or what the head's environment says where a manifest does without them.
func tokenOf(s *rayv1.RayClusterSpec) (tokenSource, error) {
	if o := s.AuthOptions; o != nil {
		switch {
		case o.EnableK8sTokenAuth != nil && *o.EnableK8sTokenAuth:
			return tokenSource{}, noKubernetesTokens()
		case o.Mode != rayv1.AuthModeToken:
			return tokenSource{}, nil
		case o.SecretName != nil && *o.SecretName != "":
			return tokenSource{secret: *o.SecretName, key: tokenKey}, nil
		default:
			return tokenSource{ours: true}, nil
		}
	}
	out := tokenSource{ours: true}
	for _, c := range s.HeadGroupSpec.Template.Spec.Containers[:1] {
		for _, e := range c.Env {
			switch {
			case e.Name == "RAY_ENABLE_K8S_TOKEN_AUTH" && e.Value == "true":
				return tokenSource{}, noKubernetesTokens()
			case e.Name == "RAY_AUTH_MODE":
				out.ours = false
			case e.Name == "RAY_AUTH_TOKEN" && e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil:
				out.secret, out.key = e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Key
			case e.Name == "RAY_AUTH_TOKEN":
				out.value = e.Value
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
func (p *plan) takeManifest() (err error) {
	if p.adopted, err = adopt(p.spec); p.adopted == nil || err != nil {
		return err
	}
	p.version = cmp.Or(p.spec.Ray.Version, p.adopted.spec.RayVersion, rayVersion(p.spec))
	if _, err := version.ParseGeneric(p.version); err != nil {
		p.version = "0.0.0" // all that would follow from it is the token
	}
	return nil
}

// adoptedCluster is the RayCluster as it was given, with what finds it, ends it and admits it as a whole.
func (p *plan) adoptedCluster(rc *rayv1.RayCluster) {
	rc.Spec = *p.adopted.spec.DeepCopy()
	if p.hasToken() && p.adopted.token.ours {
		rc.Spec.AuthOptions = p.authOptions()
	}
	p.scheduler.Cluster(rc, p.spec)
	p.adoptTemplate(&rc.Spec.HeadGroupSpec.Template, headGroup)
	for i := range rc.Spec.WorkerGroupSpecs {
		g := &rc.Spec.WorkerGroupSpecs[i]
		g.Replicas = ptr.To(ptr.Deref(g.Replicas, ptr.Deref(g.MinReplicas, 0)))
		p.adoptTemplate(&g.Template, g.GroupName)
	}
}

func (p *plan) adoptTemplate(t *corev1.PodTemplateSpec, group string) {
	t.Labels = merged(t.Labels, map[string]string{labelManagedBy: managedBy, labelName: p.spec.Name, labelOwner: labelValue(p.owner)})
	t.Annotations = merged(t.Annotations)
	p.scheduler.Pod(t, p.spec.Name, group)
}

// chooseScheduler leaves a RayCluster alone that names a scheduler or a queueing system itself.
func (p *plan) chooseScheduler(served gang.Served) (gang.Scheduler, error) {
	if p.adopted != nil && p.spec.KubeRay.Scheduler == "auto" && p.adopted.hasQueue(p.spec.Labels) {
		return gang.None{}, nil
	}
	return gang.Choose(p.spec, served)
}

func (a *adopted) hasQueue(labels map[string]string) bool {
	for k := range labels {
		if strings.HasPrefix(k, "kueue.x-k8s.io/") || strings.HasPrefix(k, "yunikorn.apache.org/") || strings.HasPrefix(k, "kai.scheduler/") || k == "ray.io/gang-scheduling-enabled" {
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
	return t.Spec.SchedulerName != "" && t.Spec.SchedulerName != corev1.DefaultSchedulerName && gang.ByPod(t.Spec.SchedulerName) == gang.None{}
}

// headServiceName is the name that KubeRay gives the head's Service.
func headServiceName(name string, s *rayv1.RayClusterSpec) string {
	if own := s.HeadGroupSpec.HeadService; own != nil && own.Name != "" {
		return own.Name
	}
	return headService(name)
}

// headAddress is where the keeper finds the head: the name of its Service, and the ports of dashboard and GCS.
func (p *plan) headAddress() (host string, dashboard, gcs int) {
	s := &rayv1.RayClusterSpec{}
	if p.adopted != nil {
		s = &p.adopted.spec
	}
	host = headServiceName(p.spec.Name, s) + "." + p.namespace + ".svc"
	return host, portParam(s, "dashboard-port", dashboardPort), portParam(s, "port", gcsPort)
}

// portParam is a port among the options of `ray start`.
func portParam(s *rayv1.RayClusterSpec, option string, usual int) int {
	if n, err := strconv.Atoi(s.HeadGroupSpec.RayStartParams[option]); err == nil && n > 0 {
		return n
	}
	return usual
}
