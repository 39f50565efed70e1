package observe

import (
	"time"

	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Hopeless are reasons that do not pass by waiting, and how long they may last before the start fails: registries and
// Secrets that come late are waited for.
var Hopeless = map[string]time.Duration{
	"InvalidRayClusterSpec": 0, "InvalidRayClusterMetadata": 0, "InvalidImageName": 0, "ErrImageNeverPull": 0,
	"ErrImagePull": time.Minute, "ImagePullBackOff": time.Minute,
	"CreateContainerConfigError": time.Minute, "CreateContainerError": time.Minute, "RunContainerError": time.Minute,
	"CrashLoopBackOff": 0, "OOMKilled": 0,
	quotaTooSmall: 0, quotaUndefined: 0, limitRange: 0, podSecurity: 0, policyDenied: 0, podInvalid: 0, webhookDenied: time.Minute, notThere: time.Minute,
	headHeld: 0, meshRefuses: time.Minute,
	ClusterMissing: Silence, // what is mirrored may be a bit old
}

// Crashes is how often a container may end before the start of its cluster fails.
const Crashes = 3

// Restarts is the most that a container of Ray's pods was started again.
func (o *Snapshot) Restarts() (most int32) {
	for _, p := range o.rayPods() {
		for _, c := range p.Status.ContainerStatuses {
			most = max(most, c.RestartCount)
		}
	}
	return most
}

// Admitted reports whether the operator has made the pods of the RayCluster, or has reported why not: it does one of both at its first look.
// What waits in a queue is to have the queue's first word besides. A launch waits for that before its commit, though not for an operator or a queueing system that does not
// run. So a refusal that cannot pass ends the launch, and no client has to watch for it later.
func (o *Snapshot) Admitted() bool {
	c := o.Cluster
	if c != nil && ptr.Deref(c.Spec.Suspend, false) && queueOf(c) != "" && o.inQueue[c.UID].Why == "" {
		return false
	}
	return c != nil && (c.Status.ObservedGeneration > 0 || c.Status.State != "" || len(c.Status.Conditions) > 0) //nolint:staticcheck // see phase
}

// headHeld is the reason of an early head that is not alone.
const headHeld = "HeadInGang"

// Refused is the error of a launch whose RayCluster or pods are refused for good.
func (o *Snapshot) Refused(name string) error {
	for _, r := range []runstate.Reason{o.refusedSpec(), o.RefusedPods(), o.heldByQueue(), o.headInGang()} {
		if patience, bad := Hopeless[r.Code]; bad && patience == 0 {
			return launcher.Fail(runstate.CodeStartFailed, nil, r.Hint, "%s cannot start: %s", name, r.Message)
		}
	}
	return nil
}
