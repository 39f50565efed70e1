// Package kuberayspec is KubeRay's part of the cluster file: its keys, their defaults and checks.
package kuberayspec

import (
	"cmp"
	_ "embed"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rayctl/rayctl/kuberay/manifest"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/ignored"
)

// Name is the launcher's name, and the key of its section.
const Name = "kuberay"

const (
	defaultImage    = "rayproject/ray:"
	defaultResource = "nvidia.com/gpu"
)

//go:embed types.go
var source string

// Substrate registers KubeRay's part of the cluster file.
var Substrate = spec.Register(&spec.Substrate{
	Name: Name, Title: "KubeRay", On: "on Kubernetes", OtherNames: []string{"k8s", "kubernetes", "kube", "kubectl"}, Order: 2, Source: source,
	Cluster: cluster{}, Node: node{}, Mount: mount{}, GPUType: GPUType{},
	MountExample:    "{persistentVolumeClaim: {claimName: NAME}}",
	ChosenBySection: true,
	Flags: []spec.Flag{
		{Name: "namespace", Key: "kuberay.namespace", Usage: "Kubernetes `NAMESPACE`"},
		{Name: "context", Key: "kuberay.context", Usage: "`CONTEXT` of the kubeconfig"},
	},
	Default:      fillIn,
	Validate:     validate,
	ValidateNode: validateNode,
	HashScope:    func(s *spec.ClusterSpec) { Of(s).Kubeconfig, Of(s).Context = "", "" },
	FreeText: func(path string) bool {
		return strings.Contains(path, "patch.") || strings.HasPrefix(path, "kuberay.keeperPatch.") || strings.HasPrefix(path, "kuberay.rayCluster.") || strings.HasPrefix(path, "kuberay.configMaps.")
	},
	Unused: func(s *spec.ClusterSpec, in *spec.Substrate) string {
		return strings.Join(ignored.Nodes(s, "patch", "the "+in.Name+" launcher has no pods", func(g spec.NodeGroup) bool { return Patch(g.Sections) != nil }), "")
	},
	Ignored: func(s *spec.ClusterSpec) []string {
		all := append(ignored.IdleGPU(s), ignored.MaxAllocations(s, "on Kubernetes each group's maxReplicas is the limit")...)
		all = append(all, ignoredSpeed(s)...)
		if s.Job.ShareDir != "" {
			all = append(all, "job.shareDir is ignored: on Kubernetes everybody whose Role allows it can read the run")
		}
		if s.Ray.Python == "" {
			return all
		}
		return append(all, "ray.python is ignored: on Kubernetes it is the Python of the image, in which `ray` is found by PATH")
	},
	ReadManifest: readManifest,
	InsteadOf:    map[string]string{"raystartparams": "kuberay.rayCluster takes the spec of a whole RayCluster"},
	UsesImage:    func(*spec.ClusterSpec) bool { return true },
	SecretKeys:   true,
	SingleNodes:  true,
	EarlyHead:    true,
	Python:       "the image",
})

// Ray's autoscaler makes of the RayCluster's upscalingMode one of two speeds, and KubeRay (1.6) has no other field for it (Ray 2.60,
// autoscaler/_private/kuberay/autoscaling_config.py: Conservative is 1, Default and Aggressive are 1000).
const (
	ConservativeSpeed = 1
	freeSpeed         = 1000
)

// ignoredSpeed is about a scaling.upscalingSpeed that is none of KubeRay's.
func ignoredSpeed(s *spec.ClusterSpec) []string {
	speed := s.Scaling.UpscalingSpeed
	if speed == 0 || speed == ConservativeSpeed || speed >= freeSpeed || !s.IsElastic() {
		return nil
	}
	return []string{fmt.Sprintf("scaling.upscalingSpeed is ignored: KubeRay's autoscaler does not know %v, only %d (as many nodes of a group as it has), or, without this key, all nodes that are needed", speed, ConservativeSpeed)}
}

// Of is the file's section; nil if it has none.
func Of(s *spec.ClusterSpec) *Section {
	if keys := spec.Section[cluster](s.Sections); keys != nil {
		return keys.KubeRay
	}
	return nil
}

// sectionOf is a copy of the file's section, empty if it has none.
func sectionOf(s *spec.ClusterSpec) Section {
	if c := Of(s); c != nil {
		return *c
	}
	return Section{}
}

// In is a ClusterSpec's Sections with this section.
func In(c *Section) spec.Sections { return spec.Sections{Name: &cluster{KubeRay: c}} }

// GroupOf is what the head's or a group's pods have besides; nil if nothing.
func GroupOf(s spec.Sections) *Group {
	if keys := spec.Section[node](s); keys != nil {
		return keys.KubeRay
	}
	return nil
}

// Patch is the patch on the pod template of the head or a group; nil if there is none.
func Patch(s spec.Sections) spec.Object {
	if keys := spec.Section[node](s); keys != nil {
		return keys.Patch
	}
	return nil
}

// PatchIn is a NodeResources' Sections with this patch.
func PatchIn(o spec.Object) spec.Sections { return spec.Sections{Name: &node{Patch: o}} }

// Source is a mount's volume; nil if the file names none.
func Source(s spec.Sections) *corev1.VolumeSource {
	if keys := spec.Section[mount](s); keys != nil {
		return keys.KubeRay
	}
	return nil
}

// GPUTypeOf is what the site calls a type of GPU, with the defaults.
func GPUTypeOf(s *spec.ClusterSpec, name string) (t GPUType) {
	if keys := spec.Section[GPUType](s.GPUTypes[name].Sections); keys != nil {
		t = *keys
	}
	t.Resource = cmp.Or(t.Resource, defaultResource)
	return t
}

func fillIn(s *spec.ClusterSpec) {
	if Of(s) == nil {
		s.Sections = s.Sections.With(Name, &cluster{KubeRay: &Section{}})
	}
	c := Of(s)
	c.Scheduler = cmp.Or(c.Scheduler, "auto")
	c.Keeper = cmp.Or(c.Keeper, "auto")
	if s.Image == "" && s.Ray.Version != "" && c.RayCluster == nil {
		s.Image = defaultImage + s.Ray.Version
	}
	c.KeeperImage = cmp.Or(c.KeeperImage, s.Image)
}

// readManifest takes a RayCluster or a RayJob in place of a cluster file.
func readManifest(name string, data []byte) (*spec.Manifest, error) {
	m, err := manifest.Detect(name, data)
	if err != nil || m == nil {
		return nil, err
	}
	out := &spec.Manifest{File: m.File, Kind: m.Kind, Launcher: Name, Notes: m.Notes}
	for _, x := range inRayCluster {
		out.Own = append(out.Own, x.path)
	}
	for _, k := range m.Keys {
		out.Keys = append(out.Keys, spec.ManifestKey(k))
	}
	return out, nil
}
