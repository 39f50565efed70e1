// Package doctor looks at what a cluster needs on Kubernetes before it is launched: permissions, quotas, GPUs, the gang's scheduler, and whether the
// operator and the API server take its objects.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Caller is the client that runs the check: its user and where it runs.
type Caller struct {
	// Context is the kubeconfig's context in use; "" inside of pods.
	Context string
	// Owner is user@host.
	Owner string
	Log   *slog.Logger
}

// Check examines what the cluster of the file needs on Kubernetes. It deletes the objects that it creates to see whether a controller acts on
// them. A check that the user has no permission for reports that and does not fail.
func Check(ctx context.Context, c *api.Client, s *spec.ClusterSpec, from Caller) []launcher.Check {
	checks := []launcher.Check{checkServer(c, from.Context), checkNamespace(ctx, c)}
	permissions := checkPermissions(ctx, c, s)
	checks = append(checks, permissions, checkGang(ctx, c, s), checkGPUs(ctx, c, s))
	if !permissions.OK {
		return append(checks, launcher.Check{Name: "KubeRay", Detail: "not checked, because permissions are missing"})
	}
	return append(checks, tryOut(ctx, c, s, from)...)
}

// failed makes a failed check; the error names what is wrong and what to do.
func failed(name string, err error) launcher.Check {
	return launcher.Check{Name: name, Detail: err.Error()}
}

func checkServer(c *api.Client, name string) launcher.Check {
	version, err := c.Core.Discovery().ServerVersion()
	if err != nil {
		return failed("Kubernetes", api.Explain(err, "get", "the version", c))
	}
	return launcher.Check{Name: "Kubernetes", OK: true, Detail: fmt.Sprintf("%s at %s (context %s)", version.GitVersion, c.Config.Host, cmp.Or(name, "of this pod"))}
}

func checkNamespace(ctx context.Context, c *api.Client) launcher.Check {
	check := launcher.Check{Name: "namespace", OK: true, Detail: c.Namespace}
	ns, err := c.Core.CoreV1().Namespaces().Get(ctx, c.Namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		check.Detail += " (you may not get it)"
	case apierrors.IsNotFound(err):
		return launcher.Check{Name: check.Name, Detail: c.Namespace + " does not exist", Hint: "create it, or set kuberay.namespace"}
	case err != nil:
		return failed(check.Name, api.Explain(err, "get", "namespaces", c))
	case ns.DeletionTimestamp != nil:
		return launcher.Check{Name: check.Name, Detail: c.Namespace + " is being deleted", Hint: "choose another one"}
	}
	return check
}

// checkGang looks at the gang's scheduler and at the queue that the cluster would wait in.
func checkGang(ctx context.Context, c *api.Client, s *spec.ClusterSpec) launcher.Check {
	check := launcher.Check{Name: "gang scheduling", Hint: "install " + admit.Titles() + ", or use gang: false for GPU clusters of several pods"}
	p, err := objects.NewPlan(spec.Copy(s), c.Namespace, "", c.Served.Admitters)
	switch {
	case kuberayspec.Of(s).Scheduler == (admit.None{}).Info().Name || err == nil && !p.Admitter.Info().HasObject():
		check.OK, check.Detail = true, "not used by this file"
		return check
	case len(c.Served.Admitters.Gangs()) == 0:
		check.Detail = "this Kubernetes does not serve the objects of " + admit.Titles()
		return check
	case err != nil: // the file has no image: a queue can be looked at all the same
		p = &objects.Plan{Admitter: c.Served.Admitters.Gangs()[0]}
	}
	title, name := p.Admitter.Info().Title, cmp.Or(kuberayspec.Of(s).Queue, p.Queue())
	state, err := p.Admitter.Info().QueueState(ctx, c.Dynamic, name)
	switch {
	case apierrors.IsForbidden(err):
		check.OK, check.Detail = true, title+"; you may not get its queue "+name
	case apierrors.IsNotFound(err):
		check.Detail, check.Hint = title+" has no queue "+name, "choose another one with kuberay.queue"
	case err != nil:
		return failed(check.Name, api.Explain(err, "get", "queues", c))
	default:
		check.OK, check.Detail, check.Hint = state == "Open", fmt.Sprintf("%s; queue %s is %s", title, name, cmp.Or(state, "without a state")), "ask your administrators to open it, and check that "+title+"'s controllers run"
	}
	return check
}

// checkToken reports who can connect to a cluster without a token. That is no failure: older versions of Ray have none.
func checkToken(p *objects.Plan) launcher.Check {
	return launcher.Check{Name: "token", OK: true, Detail: cmp.Or(p.Open(), "Ray checks the cluster's token")}
}

// checkGPUs compares what the nodes have with what the file wants. A pool that an autoscaler has emptied is no fault.
func checkGPUs(ctx context.Context, c *api.Client, s *spec.ClusterSpec) launcher.Check {
	check := launcher.Check{Name: "GPUs", OK: true}
	s = spec.Copy(s)
	if _, err := objects.Adopt(s); err != nil {
		return failed(check.Name, err)
	}
	nodes, err := c.Core.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		check.Detail = "not checked: you may not list nodes"
		return check
	}
	if err != nil {
		return failed(check.Name, api.Explain(err, "list", "nodes", c))
	}
	total, most := map[string]int{}, map[string]int{}
	for _, n := range nodes.Items {
		for name, q := range n.Status.Allocatable {
			total[string(name)] += int(q.Value())
			most[string(name)] = max(most[string(name)], int(q.Value()))
		}
	}
	var later []string
	for _, g := range s.NodeGroups() {
		t := kuberayspec.GPUTypeOf(s, g.GPUType)
		now := fmt.Sprintf("group %s asks for %d nodes with %d %s each; all nodes together have %d, and one node at most %d", g.Name, g.Min, g.GPUs, t.Resource, total[t.Resource], most[t.Resource])
		switch {
		case g.GPUs > most[t.Resource] && most[t.Resource] > 0:
			return launcher.Check{Name: check.Name, Detail: now, Hint: "lower gpus, or check why the nodes do not have them; only an autoscaler that brings larger nodes would help"}
		case g.GPUs > 0 && most[t.Resource] == 0:
			later = append(later, fmt.Sprintf("not checked: no node has %s now, and group %s waits until an autoscaler brings nodes with %d", t.Resource, g.Name, g.GPUs))
		case g.GPUs*g.Min > total[t.Resource]:
			later = append(later, now+", so it waits until an autoscaler brings more")
		}
	}
	t := kuberayspec.GPUTypeOf(s, "")
	check.Detail = strings.Join(later, "; ")
	if len(later) > 0 {
		return check
	}
	check.Detail = fmt.Sprintf("the file asks for %d, and %d nodes have %d %s", s.TotalGPUs(), len(nodes.Items), total[t.Resource], t.Resource)
	return check
}
