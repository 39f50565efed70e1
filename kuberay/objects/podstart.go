package objects

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/environ"
)

// addStart lets the shell that starts Ray read node.sh first: KubeRay puts a container's own arguments before `ray start`.
func (p *Plan) addStart(t *corev1.PodTemplateSpec, g spec.NodeGroup, group string) {
	c, env := rayContainer(t), func(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }
	files := []string{nodeKey, zipKey}
	if p.Spec.Setup != "" {
		files = append(files, setupKey)
	}
	measured := g.GPUs > 0 && g.Tasks
	if measured {
		c.Env = append(c.Env, env("RAYCTL_GPUS", strconv.Itoa(g.GPUs)), env("RAYCTL_GPUS_PERIOD", strconv.FormatFloat(orders.GPUPeriod(p.Spec).Seconds(), 'f', -1, 64)),
			podIP("RAYCTL_POD_IP"))
	}
	if p.Spec.Head.Early {
		part := "gang"
		if g.Head {
			part = "head"
		}
		c.Env = append(c.Env, env(tellGrant, part))
	}
	tells := p.Placed() && group != HeadGroup
	if tells {
		c.Env = append(c.Env, env("RAYCTL_TELL_GROUP", group))
	}
	if p.Spec.Setup != "" || measured || p.Spec.Head.Early || tells {
		c.Env = append(c.Env, env("RAYCTL_KEEPER", p.keeperAddress()), corev1.EnvVar{Name: "RAYCTL_KEEPER_TOKEN", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: SecretName(p.Spec.Name)}, Key: TokenKey},
		}})
	}
	_, own := p.Spec.Env[bashEnv]
	_, groups := g.Env[bashEnv]
	if group != HeadGroup && !own && !groups {
		files = append(files, waitKey)
		c.Env = append(c.Env, env(bashEnv, nodeFiles+"/"+waitKey))
	}
	c.Env = append(c.Env, env("RAYCTL_FAST_START", orders.FastStart(p.Spec)), env(environ.Run, p.Spec.Name), env(environ.OutputDir, literal(orders.OutputDir(p.Spec, p.scratch()))))
	if p.Spec.Job.Entrypoint != "" {
		c.Env = append(c.Env, env("RAYCTL_JOB", "1"))
	}
	if group == HeadGroup && p.headReachesKeeper() {
		c.Env = append(c.Env, env("RAYCTL_WAITING", literal(p.waiting())), env("RAYCTL_WARN_KEEPER", p.keeperAddress()))
	}
	if p.warns() {
		host, dashboard, _ := p.headAddress()
		if group == HeadGroup {
			host = "127.0.0.1" // a mesh's proxy may have the other end of what goes to the pod's own address, and then nobody can prove it (host/proof.py)
		}
		c.Env = append(c.Env, env("RAYCTL_WARN_DASHBOARD", "http://"+host+":"+strconv.Itoa(dashboard)))
	}
	items := make([]corev1.KeyToPath, len(files))
	for i, name := range files {
		items[i] = corev1.KeyToPath{Key: name, Path: name}
	}
	addVolume(t, "rayctl", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: SecretName(p.Spec.Name), Items: items}},
		corev1.VolumeMount{MountPath: nodeFiles, ReadOnly: true})
	c.Args = []string{". " + nodeFiles + "/" + nodeKey + "; true"} // on the left of &&, where KubeRay puts it, the shell would not obey set -e
}

// podIP is a variable with the pod's address.
func podIP(name string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}
}

// headReachesKeeper reports whether the head can tell the keeper anything: by its token, and where there is a keeper.
func (p *Plan) headReachesKeeper() bool {
	return p.hasToken() && kuberayspec.Of(p.Spec).Keeper != KeeperNone
}

// waiting is what the head needs to tell the keeper what waits for resources that no node can have (keeper/rayctl_keeper/rayhook/waiting.py). In a cluster with
// elastic groups these are the resources of a node of each group, as KubeRay's autoscaler counts them, and how many nodes there may be.
func (p *Plan) waiting() string {
	groups, most, nodes := map[string]map[string]float64{}, 0, p.Spec.NodeGroups()
	if !p.Spec.IsElastic() {
		nodes = nil // the nodes that there are say it
	}
	for _, g := range nodes {
		most += max(g.Count, g.Max)
		shape := maps.Clone(g.Resources)
		if shape == nil {
			shape = map[string]float64{}
		}
		if g.Tasks {
			shape["CPU"], shape["GPU"] = math.Ceil(float64(cpusOf(g))), float64(g.GPUs)
		}
		if !g.Memory.IsZero() {
			shape["memory"] = float64(g.Memory.Value())
		}
		groups[g.Name] = shape
	}
	text, err := json.Marshal(map[string]any{"keeper": p.keeperAddress(), "groups": groups, "most": most})
	if err != nil {
		panic("kuberay: a map of numbers has no JSON: " + err.Error()) // impossible: the spec allows finite numbers only
	}
	return string(text)
}

// tellGrant is the variable by which pods of a cluster with an early head report to the keeper that they have nodes, see node.sh.
const tellGrant = "RAYCTL_TELL_GRANT"

// HasEarlyHead reports whether the head of a RayCluster is to come before the workers.
func HasEarlyHead(rc *rayv1.RayCluster) bool {
	return slices.ContainsFunc(rc.Spec.HeadGroupSpec.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == tellGrant })
	})
}
