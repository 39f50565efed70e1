package kuberay_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestRefusalsEndTheLaunch: what cannot pass ends the launch before its commit, with the key of the file that answers it. So no client has to
// watch for it, and nothing stays.
func TestRefusalsEndTheLaunch(t *testing.T) {
	pace.Parallel(t)
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, b bed)
		change  func(s *spec.ClusterSpec)
		code    int
		want    []string
	}{
		{"quota", func(t *testing.T, b bed) {
			b.Create(t, b.namespace, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: tight}, spec: {hard: {requests.memory: 1Gi}}}`) // the head wants 2
			b.awaitRefused(t, anyPod(), "tight")
		}, nil, runstate.CodeStartFailed, []string{"a pod of the head is refused: exceeded quota: tight, requested: requests.memory=2Gi, limited: requests.memory=1Gi", "change head.memory, or ask for a larger quota tight"}},
		{"quota of the whole", func(t *testing.T, b bed) {
			b.Create(t, b.namespace, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: tight}, spec: {hard: {requests.memory: 3Gi}}}`)
			b.awaitRefused(t, anyPod(), "tight")
		}, func(s *spec.ClusterSpec) { s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: smallNode()}} },
			runstate.CodeStartFailed, []string{"a pod of group w is refused: exceeded quota: tight", "the cluster as a whole needs requests.memory=4352Mi", "change workers[].memory of group w"}},
		{"limits", func(t *testing.T, b bed) {
			b.Create(t, b.namespace, `{apiVersion: v1, kind: LimitRange, metadata: {name: small}, spec: {limits: [{type: Container, max: {memory: 1Gi}}]}}`)
			big := anyPod()
			big.Spec.Containers[0].Resources = smallContainer("2Gi")
			b.awaitRefused(t, big, "maximum memory usage")
		}, nil, runstate.CodeStartFailed, []string{"maximum memory usage per Container is 1Gi, but limit is 2Gi", "change head.memory, or ask for another LimitRange"}},
		{"a default below the request", func(t *testing.T, b bed) {
			b.Create(t, b.namespace, `{apiVersion: v1, kind: LimitRange, metadata: {name: usual}, spec: {limits: [{type: Container, default: {cpu: 150m}, defaultRequest: {cpu: 10m}}]}}`)
			busy := anyPod()
			busy.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}
			b.awaitRefused(t, busy, "must be less than or equal to cpu limit")
		}, nil, runstate.CodeStartFailed, []string{"a pod of the head is refused", "the pod sets no limit of cpu itself: 150m is the default of a LimitRange of the namespace", "change head.cpus or head.kuberay.limits, or ask for another LimitRange"}},
		{"suspended", func(*testing.T, bed) {}, func(s *spec.ClusterSpec) {
			s.Sections = kuberayspec.In(&kuberayspec.Section{Patch: spec.Object{"spec": map[string]any{"suspend": true}}})
		}, runstate.CodeSpec, []string{"suspend: true keeps KubeRay from making its pods"}},
		{"profile", func(t *testing.T, b bed) {
			b.level(t, "restricted")
			b.awaitRefused(t, anyPod(), "violates PodSecurity")
		}, func(s *spec.ClusterSpec) {
			s.Head.Sections = kuberayspec.PatchIn(spec.Object{"spec": map[string]any{"hostNetwork": true}})
		},
			runstate.CodeStartFailed, []string{"a pod of the head is refused: violates PodSecurity", "host namespaces", "change head.patch or mounts"}},
		{"policy", func(t *testing.T, b bed) {
			b.policy(t, "images-"+b.namespace, "pods", "!object.metadata.name.contains('head')", "heads need the label team")
			head := anyPod()
			head.Name = "head"
			b.awaitRefused(t, head, "heads need the label team")
		}, nil, runstate.CodeStartFailed, []string{"a pod of the head is refused: ValidatingAdmissionPolicy 'images-", "heads need the label team", "change labels or head.patch, or ask for an exception of policy images-"}},
		{"policy of our objects", func(t *testing.T, b bed) {
			b.policy(t, "teams-"+b.namespace, "services", "has(object.metadata.labels) && 'team' in object.metadata.labels", "say whose it is")
			kubetest.Await(t, "the policy to count", func(ctx context.Context) error {
				_, err := b.Core.CoreV1().Services(b.namespace).Create(ctx, anyService(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "say whose it is") {
					return nil
				}
				return errors.Join(errors.New("it is let in"), err)
			})
		}, nil, runstate.CodePermission, []string{"creating services", "say whose it is", "change labels"}},
		{"queue", func(*testing.T, bed) {}, func(s *spec.ClusterSpec) { s.Sections = kuberayspec.In(&kuberayspec.Section{Queue: "nosuch"}) },
			runstate.CodeStartFailed, []string{"Volcano has no queue nosuch", "kuberay.queue"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pace.Parallel(t)
			b := newBed(t)
			c.prepare(t, b)
			s := named("refused", "echo never")
			if c.change != nil {
				c.change(s)
			}
			_, err := b.l.Launch(t.Context(), s, launcher.Payload{})
			wantRefusal(t, err, c.code, c.want...)
			b.awaitNothing(t, "refused")
		})
	}
}
