package kuberay

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/rayctl/rayctl/kuberay/gang"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// plan is everything the objects of a cluster follow from.
type plan struct {
	spec       *spec.ClusterSpec // prepared
	hash       string
	namespace  string
	owner      string // user@host
	command    string
	scheduler  gang.Scheduler
	version    string   // Ray's
	adopted    *adopted // a RayCluster that is taken as it is; nil: it is made of the file's groups
	token      string
	secrets    map[string]string // values that come from the client
	disconnect time.Duration
	kept       []launcher.PackageFile // packages that a Secret keeps, see kept.go
	ownerUID   types.UID              // of the keeper's Job, once it exists
}

// newPlan checks what is not a matter of the cluster file alone.
func newPlan(s *spec.ClusterSpec, namespace, owner string, served gang.Served) (*plan, error) {
	p := &plan{spec: s, hash: spec.Hash(s), namespace: namespace, owner: owner}
	if err := p.takeManifest(); err != nil {
		return nil, err
	}
	p.version = cmp.Or(p.version, rayVersion(s))
	if err := spec.CheckName(s.Name); err != nil {
		return nil, launcher.Fail(runstate.CodeSpec, err, "choose another one", "%q cannot be a cluster's name: %v", s.Name, err)
	}
	for _, g := range s.NodeGroups() {
		if g.Image == "" {
			return nil, launcher.Fail(runstate.CodeSpec, nil, "set image, such as rayproject/ray:2.60.0, or ray.version", "there is no image for %s", g.Name)
		}
	}
	if _, err := version.ParseGeneric(p.version); err != nil {
		return nil, launcher.Fail(runstate.CodeSpec, err, "set ray.version to the version of Ray in the image", "neither ray.version nor the image's tag says which Ray the cluster runs")
	}
	var err error
	p.scheduler, err = p.chooseScheduler(served)
	return p, err
}

// rayAtLeast compares Ray's version, which newPlan has checked.
func (p *plan) rayAtLeast(v string) bool {
	return version.MustParseGeneric(p.version).AtLeast(version.MustParseGeneric(v))
}

// hasToken says whether Ray itself checks the cluster's token.
func (p *plan) hasToken() bool { return p.rayAtLeast("2.52.0") }

// with fills in what one launch brings beside the file.
func (p *plan) with(pay launcher.Payload) (*plan, error) {
	p.token, p.command, p.disconnect, p.secrets = keeper.NewToken(), pay.Command, pay.EndOnDisconnect, map[string]string{}
	for _, s := range p.spec.Secrets {
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

// bound is the time after which Kubernetes itself ends the cluster should the keeper be stuck; 0: the file has no limit.
func (p *plan) bound() time.Duration {
	queue, hasQueue := p.spec.Lifetime.Queue.Bound()
	most, hasMax := p.spec.Lifetime.Max.Bound()
	if !hasQueue || !hasMax {
		return 0
	}
	return queue + most + afterMax(time.Duration(*p.spec.Job.Grace))
}

// afterMax is how long a cluster that lifetime.max ends may still be there before its keeper is taken for stuck.
func afterMax(grace time.Duration) time.Duration { return startLimit + grace + orders.Lease }
