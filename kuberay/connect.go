package kuberay

import (
	"context"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/doctor"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// kube returns the connection to Kubernetes, made by the first call.
func (l *Launcher) kube(ctx context.Context) (*api.Client, error) {
	l.connect.Lock()
	defer l.connect.Unlock()
	if l.client != nil {
		return l.client, nil
	}
	c, err := api.New(l.config.Kubeconfig, l.config.Context, l.config.Namespace)
	if err != nil {
		return nil, err
	}
	if err := c.Discover(ctx); err != nil {
		return nil, err
	}
	if !c.Served.Ray {
		return nil, launcher.Fail(runstate.CodeConfig, nil, "install the KubeRay operator, or choose another context", "the Kubernetes at %s does not serve ray.io/v1: KubeRay is missing or older than 1.0", c.Config.Host)
	}
	l.client = c
	return c, nil
}

// Check looks at what the cluster of the file needs on Kubernetes, see doctor.Check.
func (l *Launcher) Check(ctx context.Context, s *spec.ClusterSpec) []launcher.Check {
	if s == nil {
		s = &spec.ClusterSpec{}
	}
	c, err := l.kube(ctx)
	if err != nil {
		return []launcher.Check{{Name: "Kubernetes", Detail: err.Error()}}
	}
	return doctor.Check(ctx, c, spec.For(s, kuberayspec.Name), doctor.Caller{Context: contextName(l.config), Owner: l.owner, Log: l.log})
}

// contextName is the kubeconfig's context in use; "" inside of pods.
func contextName(c Config) string {
	if c.Context != "" {
		return c.Context
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	raw, err := rules.Load()
	if err != nil {
		return "" // kube has said so
	}
	return raw.CurrentContext
}
