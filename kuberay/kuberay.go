// Package kuberay is the launcher on Kubernetes: Ray's nodes are pods of a RayCluster that the KubeRay operator makes, the gang is
// admitted by one of package admit, and the keeper is the small pod of a Job that owns all of it.
//
// What a cluster is made of, in the order of its making, each with the label rayctl.io/name:
//
//	Job NAME                suspended; its pod is the keeper, its end is the cluster's (garbage collection takes the rest)
//	Secret, Service         of the keeper, owned by the Job, which then runs
//	RayCluster NAME         owned by the Job
//	the gang's object       owned by the RayCluster, if the scheduler has one (package admit); named and counted as KubeRay's own plug-in for it does
//	Job NAME-record         owned by nobody: fetches driver's log and result from the keeper, and stays for lifetime.keep
//
// A client may die between any two of these: the keeper's lease ends what was not committed.
package kuberay

import (
	"context"
	"log/slog"
	"os"
	"os/user"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/doctor"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/transport"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Config names the Kubernetes cluster and namespace. Empty fields have kubectl's defaults: KUBECONFIG, ~/.kube/config, or the pod's own
// service account; the context's namespace.
type Config struct {
	Kubeconfig string
	Context    string
	Namespace  string
	// Logger takes notes for -v; nil: none.
	Logger *slog.Logger
	// Now is the time of Collect; nil: time.Now.
	Now func() time.Time
}

// Launcher runs clusters in one namespace of one Kubernetes. It implements launcher.Launcher, Resizer and Tender.
// Nothing is read or reached before the first call that needs it.
type Launcher struct {
	config Config
	owner  string // user@host
	log    *slog.Logger

	connect sync.Mutex
	client  *api.Client

	mu         sync.Mutex
	tokens     map[launcher.ID]string
	residents  map[launcher.ID]*residentKeeper
	payloads   map[launcher.ID]launcher.Payload // of clusters that this client launched
	heads      map[launcher.ID]transport.Place  // of those
	transports map[transportKey]transport.Transport
}

var (
	_ launcher.Launcher = (*Launcher)(nil)
	_ launcher.Resizer  = (*Launcher)(nil)
	_ launcher.Tender   = (*Launcher)(nil)
)

// Properties say that each head is in a pod. What a cluster left is on PersistentVolumeClaims and the like, which only pods read.
func (l *Launcher) Properties() launcher.Properties {
	return launcher.Properties{FilesEnd: "`rayctl up -f FILE --name NAME-files` mounts it again, where FILE is the cluster file, then `rayctl cp NAME-files:PATH DST` copies from it"}
}

// Notes has none: all of a cluster file is given, or refused.
func (l *Launcher) Notes(*spec.ClusterSpec) []string { return nil }

// New returns the launcher. It touches nothing yet.
func New(c Config) *Launcher {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Launcher{
		config: c, owner: thisUser(), log: c.Logger, tokens: map[launcher.ID]string{}, residents: map[launcher.ID]*residentKeeper{},
		payloads: map[launcher.ID]launcher.Payload{}, heads: map[launcher.ID]transport.Place{}, transports: map[transportKey]transport.Transport{},
	}
}

// Substrate is KubeRay as a launcher of rayctl.
var Substrate = launcher.Substrate{Substrate: kuberayspec.Substrate, New: func(s *spec.ClusterSpec, log *slog.Logger) (launcher.Launcher, error) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // client-go would write messages about lost connections to stderr
	return New(configOf(s, log)), nil
}}

// configOf takes from a cluster file how Kubernetes is reached.
func configOf(s *spec.ClusterSpec, log *slog.Logger) Config {
	c := Config{Logger: log}
	if s != nil && kuberayspec.Of(s) != nil {
		c.Kubeconfig, c.Context, c.Namespace = kuberayspec.Of(s).Kubeconfig, kuberayspec.Of(s).Context, kuberayspec.Of(s).Namespace
	}
	return c
}

func thisUser() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// Name is "kuberay".
func (l *Launcher) Name() string { return kuberayspec.Name }

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
		return "" // kube has reported it
	}
	return raw.CurrentContext
}
