// Package objects makes of a cluster file the objects that a cluster is on Kubernetes, with their names, labels and keys: RayCluster, Jobs, Secrets,
// Service and ConfigMaps. It makes no requests.
package objects

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// Plan is everything the objects of a cluster follow from.
type Plan struct {
	Spec       *spec.ClusterSpec // prepared
	Hash       string
	namespace  string
	owner      string // user@host
	command    string
	Admitter   admit.Admitter
	version    string   // Ray's
	least      string   // Ray's, where neither the file nor the image's tag names one; "": one does
	Adopted    *Adopted // a RayCluster that is taken as it is; nil: it is made of the file's groups
	Token      string
	secrets    map[string]string // values that come from the client
	disconnect time.Duration
	fetch      bool                   // the client copies the output directory at the end
	Kept       []launcher.PackageFile // packages that a Secret keeps, see kept.go
	OwnerUID   types.UID              // of the keeper's Job, once it exists

	HelperQueue string // for the Jobs of keeper and record; "": they have none
	JobsHeld    bool   // these Jobs are suspended until they are admitted
	ClusterHeld bool   // and the RayCluster, also later: what admits it may take it back
	HeldIn      string // the queue that the RayCluster waits in; "": none
	Resizable   string // the annotation with which alone it may have an autoscaler there; "": it needs none
}

// NewPlan checks what is not a matter of the cluster file alone.
func NewPlan(s *spec.ClusterSpec, namespace, owner string, served admit.Served) (*Plan, error) {
	p := &Plan{Spec: s, Hash: spec.Hash(s), namespace: namespace, owner: owner}
	if err := p.takeManifest(); err != nil {
		return nil, err
	}
	p.version = cmp.Or(p.version, rayVersion(s))
	p.HelperQueue = kuberayspec.Of(s).KeeperQueue
	if err := spec.CheckName(s.Name); err != nil {
		return nil, launcher.Fail(runstate.CodeSpec, err, "choose another name", "%q cannot be a cluster's name: %v", s.Name, err)
	}
	for _, g := range s.NodeGroups() {
		if g.Image == "" {
			return nil, launcher.Fail(runstate.CodeSpec, nil, "set image, such as rayproject/ray:2.60.0, or ray.version", "there is no image for %s", g.Name)
		}
	}
	if p.version == "" {
		p.version, p.least = leastOfImage, leastOfImage
	}
	if err := p.checkHelpers(); err != nil {
		return nil, err
	}
	if p.Adopted == nil {
		if err := orders.FitsGroups(s, p.groups()); err != nil {
			return nil, err
		}
	}
	var err error
	if p.Admitter, err = p.chooseAdmitter(served); err != nil {
		return p, err
	}
	return p, p.checkMade()
}

// leastOfImage is what the cluster is made for where nothing says which Ray the image has: the first with tokens and with the path that readiness probes ask. The keeper
// refuses an older one.
const leastOfImage = "2.53.0"

// checkMade refuses a RayCluster of which KubeRay would make nothing: the launch would wait for its pods for ever.
func (p *Plan) checkMade() error {
	rc, err := p.RayCluster()
	if err != nil {
		return err
	}
	if ptr.Deref(rc.Spec.Suspend, false) {
		return badCluster("leave suspend out: what holds RayClusters in a queue sets that itself", "suspend: true keeps KubeRay from making its pods")
	}
	if by := ptr.Deref(rc.Spec.ManagedBy, kubeRayManages); by != kubeRayManages {
		return badCluster("leave managedBy out, or launch it in the Kubernetes that makes its pods", "managedBy: %s keeps the KubeRay operator of this Kubernetes from making its pods", by)
	}
	return nil
}

// kubeRayManages is the value of managedBy with which the operator makes a RayCluster's pods, as without one.
const kubeRayManages = "ray.io/kuberay-operator"

// rayAtLeast compares Ray's version, which NewPlan has checked.
func (p *Plan) rayAtLeast(v string) bool {
	return version.MustParseGeneric(p.version).AtLeast(version.MustParseGeneric(v))
}

// hasToken reports whether Ray itself checks the cluster's token.
func (p *Plan) hasToken() bool { return p.rayAtLeast("2.52.0") }

// With fills in what one launch brings beside the file.
func (p *Plan) With(pay launcher.Payload) (*Plan, error) {
	p.Token, p.command, p.disconnect, p.fetch, p.secrets = keeper.NewToken(), pay.Command, pay.EndOnDisconnect, pay.Fetch, map[string]string{}
	for _, s := range p.Spec.Secrets {
		if s.SecretKeyRef != nil {
			continue
		}
		value, ok := pay.Secrets[s.Name]
		if !ok {
			return nil, launcher.Fail(runstate.CodeSpec, nil, "set it in your environment, or give its file", "the secret %s has no value", s.Name)
		}
		p.secrets[s.Name] = value
	}
	return p, nil
}

// bound is the time after which Kubernetes itself ends the cluster should the keeper be stuck. A file without limits means a life without one, and a run may
// take months; Longest is for sites that refuse Jobs without a bound, and for what nobody remembers.
func (p *Plan) bound() time.Duration {
	queue, hasQueue := p.Spec.Lifetime.Queue.Bound()
	most, hasMax := p.Spec.Lifetime.Max.Bound()
	if !hasQueue || !hasMax {
		return Longest
	}
	return queue + most + AfterMax(p.Spec)
}

// Longest is the bound of a keeper's Job where the cluster file has none, as Slurm counts a job without a time limit. `rayctl extend` moves it.
const Longest = 365 * 24 * time.Hour

// AfterMax is how long a cluster that lifetime.max ends may still be there before its keeper is taken for stuck. s is nil where the file is not known.
func AfterMax(s *spec.ClusterSpec) time.Duration {
	if s == nil {
		return defaultStart + orders.Lease
	}
	start := time.Duration(cmp.Or(s.Lifetime.Start, units.Limit(defaultStart)))
	return start + time.Duration(ptr.Deref(s.Job.Grace, 0)) + orders.Lease
}

// KeeperNone is the value of kuberay.keeper for users who may not create Jobs.
const KeeperNone = "none"

// Queue is where the plan's gang waits; "" where it waits in none.
func (p *Plan) Queue() string {
	if p.Spec == nil {
		return p.Admitter.Info().DefaultQueue
	}
	rc, err := p.RayCluster()
	if err != nil {
		return "" // the error is reported where it is created
	}
	return p.Admitter.Info().Queue(rc)
}
