package kuberay

import (
	"context"
	"encoding/json"
	"io"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/tail"
)

// Limits of what is read of one cluster.
const (
	mostPodLogs  = 50   // pods
	mostLogLines = 5000 // of one container
	mostEvents   = 5000 // of the namespace
)

// Examine hands over the cluster's objects, their events and its pods' logs. It hands over no Secret as text: it names the secret values, which debug-dump removes from
// all texts, and hands over the keeper's orders, commit and state.
func (l *Launcher) Examine(ctx context.Context, id launcher.ID, found launcher.Evidence) {
	c, err := l.kube(ctx)
	if err != nil {
		found.Missing("kubernetes", err)
		return
	}
	x := &examination{c: c, name: string(id), found: found}
	x.secret(ctx)
	x.cluster(ctx)
	own := objects.LabelName + "=" + x.name
	x.list(ctx, api.Jobs, own)
	x.list(ctx, api.Services, own)
	pods := x.list(ctx, corev1.SchemeGroupVersion.WithResource("pods"), own, objects.RayClusterLabel+"="+x.name)
	x.events(ctx, pods)
	x.logs(ctx, pods)
}

// examination is the work of one Examine.
type examination struct {
	c     *api.Client
	name  string
	found launcher.Evidence
}

// secret hands over the secret values of the keeper's Secret, so that they are removed from all texts, and the documents in it.
func (x *examination) secret(ctx context.Context) {
	secret, err := x.c.Core.CoreV1().Secrets(x.c.Namespace).Get(ctx, objects.SecretName(x.name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) { // the cluster has ended, or rayctl did not make it
		return
	}
	if err != nil {
		x.found.Missing("kubernetes/orders.json", api.Explain(err, "get", "secrets", x.c))
		return
	}
	for key, value := range secret.Data {
		if objects.IsSecretKey(key) {
			x.found.Secret(string(value))
		}
	}
	launched := &spec.ClusterSpec{}
	if err := json.Unmarshal(secret.Data[objects.SpecKey], launched); err == nil {
		x.found.Spec(launched)
	}
	for _, s := range launched.Secrets {
		x.usersSecret(ctx, s)
	}
	for _, key := range []string{objects.OrdersKey, objects.CommitKey, objects.StateKey} {
		if text := secret.Data[key]; len(text) > 0 {
			x.found.Add("kubernetes/"+key, text, int64(len(text)))
		}
	}
}

// usersSecret hands over the value of a secret that the cluster file takes from a Secret of the user.
func (x *examination) usersSecret(ctx context.Context, s spec.Secret) {
	if s.SecretKeyRef == nil {
		return
	}
	secret, err := x.c.Core.CoreV1().Secrets(x.c.Namespace).Get(ctx, s.SecretKeyRef.Name, metav1.GetOptions{})
	if err != nil {
		x.found.Missing("the value of the secret "+s.Name+", which texts could have", api.Explain(err, "get", "secrets", x.c))
		return
	}
	x.found.Secret(string(secret.Data[s.SecretKeyRef.Key]))
}

// cluster hands over the RayCluster.
func (x *examination) cluster(ctx context.Context) {
	rc, err := x.c.GetCluster(ctx, launcher.ID(x.name))
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		x.found.Missing("kubernetes/raycluster.json", api.Explain(err, "get", api.RayClusters.GroupResource().String(), x.c))
		return
	}
	rc.SetManagedFields(nil)
	launcher.AddJSON(x.found, "kubernetes/raycluster.json", rc.Object)
}

// list hands over the objects of a kind that one of the labels selects, and returns their names.
func (x *examination) list(ctx context.Context, r schema.GroupVersionResource, labels ...string) (names []string) {
	file := "kubernetes/" + r.Resource + ".json"
	var all []unstructured.Unstructured
	for _, label := range labels {
		list, err := x.c.Dynamic.Resource(r).Namespace(x.c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: label})
		if err != nil {
			x.found.Missing(file, api.Explain(err, "list", r.GroupResource().String(), x.c))
			continue
		}
		for _, object := range list.Items {
			if !slices.Contains(names, object.GetName()) {
				object.SetManagedFields(nil)
				names, all = append(names, object.GetName()), append(all, object)
			}
		}
	}
	if len(all) > 0 {
		launcher.AddJSON(x.found, file, all)
	}
	return names
}

// events hands over the events of the cluster, of its pods, and of objects whose names begin with the cluster's, such as deleted pods.
func (x *examination) events(ctx context.Context, pods []string) {
	const file = "kubernetes/events.json"
	list, err := x.c.Core.CoreV1().Events(x.c.Namespace).List(ctx, metav1.ListOptions{Limit: mostEvents})
	if err != nil {
		x.found.Missing(file, api.Explain(err, "list", "events", x.c))
		return
	}
	events := slices.DeleteFunc(list.Items, func(e corev1.Event) bool {
		of := e.InvolvedObject.Name
		return of != x.name && !strings.HasPrefix(of, x.name+"-") && !slices.Contains(pods, of)
	})
	for i := range events {
		events[i].ManagedFields = nil
	}
	launcher.AddJSON(x.found, file, events)
}

// logs hands over the logs of the pods, but not the log of the record's pod, which is the driver's output.
func (x *examination) logs(ctx context.Context, pods []string) {
	for _, name := range pods[:min(len(pods), mostPodLogs)] {
		pod, err := x.c.Core.CoreV1().Pods(x.c.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			x.found.Missing("kubernetes/logs/"+name, api.Explain(err, "get", "pods", x.c))
			continue
		}
		if pod.Labels[objects.LabelRole] == objects.RoleRecord {
			continue
		}
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if status.State.Running != nil || status.State.Terminated != nil {
				x.log(ctx, name, status.Name)
			}
		}
	}
}

// log hands over the end of the log of a container.
func (x *examination) log(ctx context.Context, pod, container string) {
	file := path.Join("kubernetes/logs", pod, container+".log")
	log, err := x.c.Core.CoreV1().Pods(x.c.Namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container, TailLines: ptr.To[int64](mostLogLines)}).Stream(ctx)
	if err != nil {
		x.found.Missing(file, api.Explain(err, "get", "pods/log", x.c))
		return
	}
	defer log.Close()
	end := &tail.Tail{Size: launcher.EvidenceLimit}
	size, err := io.Copy(end, log)
	x.found.Missing(file, err)
	x.found.Add(file, []byte(end.String()), size)
}
