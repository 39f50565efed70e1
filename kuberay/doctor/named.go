package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
)

// Kinds of objects that pods name, as people write them.
const (
	secretKind    = "Secret"
	configMapKind = "ConfigMap"
	claimKind     = "PersistentVolumeClaim"
)

// named is an object that the cluster's pods need; Key is one of its keys, "" for the object as a whole.
type named struct{ kind, name, key string }

// checkNamed looks for the Secrets, ConfigMaps and claims that the file names: pods without them wait, and do not fail.
func checkNamed(ctx context.Context, c *api.Client, p *objects.Plan) launcher.Check {
	check := launcher.Check{Name: "named objects", OK: true}
	wanted, err := namedBy(p)
	if err != nil {
		return failed(check.Name, err)
	}
	if len(wanted) == 0 {
		check.Detail = "the file names no Secrets, ConfigMaps and claims"
		return check
	}
	var missing, unseen []string
	for _, n := range wanted {
		keys, err := keysOf(ctx, c, n)
		switch {
		case apierrors.IsForbidden(err):
			unseen = append(unseen, n.kind+" "+n.name)
		case apierrors.IsNotFound(err):
			missing = append(missing, fmt.Sprintf("%s %s does not exist", n.kind, n.name))
		case err != nil:
			return failed(check.Name, api.Explain(err, "get", strings.ToLower(n.kind)+"s", c))
		case n.key != "" && !keys[n.key]:
			missing = append(missing, fmt.Sprintf("%s %s has no key %q", n.kind, n.name, n.key))
		}
	}
	if len(missing) > 0 {
		check.OK, check.Detail = false, strings.Join(slices.Compact(missing), ", ")
		check.Hint = "create what is missing in namespace " + c.Namespace + ", or correct its name in the file: pods wait for it"
		return check
	}
	check.Detail = "everything that the file names exists"
	if len(unseen) > 0 {
		check.Detail = "not checked, because you may not get them: " + strings.Join(slices.Compact(unseen), ", ")
	}
	return check
}

// keysOf reads an object, and returns its keys. The error is Kubernetes' own.
func keysOf(ctx context.Context, c *api.Client, n named) (map[string]bool, error) {
	keys, core := map[string]bool{}, c.Core.CoreV1()
	switch n.kind {
	case secretKind:
		s, err := core.Secrets(c.Namespace).Get(ctx, n.name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		for key := range s.Data {
			keys[key] = true
		}
	case configMapKind:
		m, err := core.ConfigMaps(c.Namespace).Get(ctx, n.name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		for key := range m.Data {
			keys[key] = true
		}
		for key := range m.BinaryData {
			keys[key] = true
		}
	default:
		_, err := core.PersistentVolumeClaims(c.Namespace).Get(ctx, n.name, metav1.GetOptions{})
		return keys, err
	}
	return keys, nil
}

// namedBy are the objects that the pods of the plan name, but for those that the launch makes and those that pods can do without.
func namedBy(p *objects.Plan) ([]named, error) {
	rc, err := p.RayCluster()
	if err != nil {
		return nil, err
	}
	found := map[named]bool{}
	add := func(n named, optional *bool) {
		own := n.kind == secretKind && n.name == objects.SecretName(p.Spec.Name)
		if _, made := kuberayspec.Of(p.Spec).ConfigMaps[n.name]; n.name == "" || ptr.Deref(optional, false) || own || made && n.kind == configMapKind {
			return
		}
		found[n] = true
	}
	if o := rc.Spec.AuthOptions; o != nil {
		add(named{kind: secretKind, name: ptr.Deref(o.SecretName, "")}, nil)
	}
	pods := []corev1.PodSpec{rc.Spec.HeadGroupSpec.Template.Spec}
	for i := range rc.Spec.WorkerGroupSpecs {
		pods = append(pods, rc.Spec.WorkerGroupSpecs[i].Template.Spec)
	}
	if kuberayspec.Of(p.Spec).Keeper != objects.KeeperNone {
		pods = append(pods, p.KeeperJob().Spec.Template.Spec)
	}
	for _, pod := range pods {
		namedByPod(pod, add)
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b named) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name), cmp.Compare(a.key, b.key))
	}), nil
}

func namedByPod(pod corev1.PodSpec, add func(n named, optional *bool)) {
	for _, s := range pod.ImagePullSecrets {
		add(named{kind: secretKind, name: s.Name}, nil)
	}
	for _, v := range pod.Volumes {
		switch {
		case v.Secret != nil:
			add(named{kind: secretKind, name: v.Secret.SecretName}, v.Secret.Optional)
		case v.ConfigMap != nil:
			add(named{kind: configMapKind, name: v.ConfigMap.Name}, v.ConfigMap.Optional)
		case v.PersistentVolumeClaim != nil:
			add(named{kind: claimKind, name: v.PersistentVolumeClaim.ClaimName}, nil)
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.Secret != nil {
					add(named{kind: secretKind, name: s.Secret.Name}, s.Secret.Optional)
				}
				if s.ConfigMap != nil {
					add(named{kind: configMapKind, name: s.ConfigMap.Name}, s.ConfigMap.Optional)
				}
			}
		}
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, e := range c.Env {
			if e.ValueFrom == nil {
				continue
			}
			if r := e.ValueFrom.SecretKeyRef; r != nil {
				add(named{secretKind, r.Name, r.Key}, r.Optional)
			}
			if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
				add(named{configMapKind, r.Name, r.Key}, r.Optional)
			}
		}
		for _, from := range c.EnvFrom {
			if from.SecretRef != nil {
				add(named{kind: secretKind, name: from.SecretRef.Name}, from.SecretRef.Optional)
			}
			if from.ConfigMapRef != nil {
				add(named{kind: configMapKind, name: from.ConfigMapRef.Name}, from.ConfigMapRef.Optional)
			}
		}
	}
}
