package kuberay_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestPolicies: who refuses is the real Kyverno or Gatekeeper. The sentence has the policy and the key that answers it, whenever it comes.
func TestPolicies(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	b.StartGuest(t, kubetest.Kyverno)
	b.StartGuest(t, kubetest.Gatekeeper)
	t.Run("Pods", func(t *testing.T) { // the operator may not make the head: the launch ends, and doctor has reported it before
		pace.Parallel(t)
		b := newBed(t)
		policy := b.kyverno(t, headPods, headLabels, "none")
		fails(t, findings(t, b.l, smallSpec()), "pods of the cluster", "or ask for an exception of policy "+policy)
		_, err := b.l.Launch(t.Context(), named("refused", "echo never"), launcher.Payload{})
		wantRefusal(t, err, runstate.CodeStartFailed, `a pod of the head is refused: admission webhook "validate.kyverno.svc-fail" denied the request: it was blocked due to the following policies `+policy+": check: ",
			"label ''team'' is required", "change labels or head.patch, or ask for an exception of policy "+policy)
		b.awaitNothing(t, "refused")
	})
	t.Run("Gatekeeper", func(t *testing.T) { // the same
		pace.Parallel(t)
		b := newBed(t)
		b.gatekeeper(t, headPods)
		fails(t, findings(t, b.l, smallSpec()), "pods of the cluster", "or ask for an exception of policy must-have-team")
		_, err := b.l.Launch(t.Context(), named("refused", "echo never"), launcher.Payload{})
		wantRefusal(t, err, runstate.CodeStartFailed, `a pod of the head is refused: admission webhook "validation.gatekeeper.sh" denied the request: [must-have-team] you must provide labels: {"team"}`,
			"change labels or head.patch, or ask for an exception of policy must-have-team")
		b.awaitNothing(t, "refused")
	})
	t.Run("Helpers", func(t *testing.T) { // the Job controller may not make the keeper's pod
		pace.Parallel(t)
		b := newBed(t)
		policy := b.kyverno(t, otherPods, nil, "none")
		fails(t, findings(t, b.l, smallSpec()), "pods and DNS", "change kuberay.keeperPatch, or ask for an exception of policy "+policy)
		_, err := b.l.Launch(t.Context(), named("refused", "echo never"), launcher.Payload{})
		wantRefusal(t, err, runstate.CodeStartFailed, "the keeper of refused does not start: a pod of the keeper is refused", "change kuberay.keeperPatch, or ask for an exception of policy "+policy)
		b.awaitNothing(t, "refused")
	})
	t.Run("Jobs", func(t *testing.T) { // nor may rayctl make the Job, as Kyverno makes rules for Jobs of those for pods
		pace.Parallel(t)
		b := newBed(t)
		policy := b.kyverno(t, "", nil, "Job")
		_, err := b.l.Launch(t.Context(), named("refused", "echo never"), launcher.Payload{})
		wantRefusal(t, err, runstate.CodePermission, "creating jobs.batch in namespace "+b.namespace+" is not permitted", "change labels or kuberay.keeperPatch, or ask for an exception of policy "+policy)
		b.awaitNothing(t, "refused")
	})
	t.Run("Objects", func(t *testing.T) { // nor another object; a ValidatingPolicy has words of its own
		pace.Parallel(t)
		b := newBed(t)
		policy := b.kyvernoServices(t)
		fails(t, findings(t, b.l, smallSpec()), "objects", "change labels, or ask for an exception of policy "+policy)
		_, err := b.l.Launch(t.Context(), named("refused", "echo never"), launcher.Payload{})
		wantRefusal(t, err, runstate.CodePermission, "creating services in namespace "+b.namespace+" is not permitted", "label team is required", "change labels, or ask for an exception of policy "+policy)
		b.awaitNothing(t, "refused")
	})
	t.Run("Later", func(t *testing.T) { // the policy is made while the cluster waits for nodes: whoever watches gets the sentence, and nobody waits
		pace.Parallel(t)
		b := newBed(t)
		s, worker := named("later", "echo never"), smallNode()
		worker.GPUs = 9 // nobody has so many
		s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: worker}}
		r := b.begin(t, b.l, s)
		r.until(t, "a launch that is done", func(st launcher.Status) bool { return st.Phase == runstate.Queued && st.Reason.Code != "" })
		b.worker(t, "")
		policy := b.kyverno(t, workerPods, workerLabels, "none")
		b.DeletePods(t, b.namespace, "ray.io/group=w", 0)
		e, _ := r.ended(t)
		if want := "change labels or workers[].patch of group w, or ask for an exception of policy " + policy; e.Cause != runstate.CauseStartFailed || e.Code != runstate.CodeStartFailed || !strings.Contains(e.Message, want) {
			t.Errorf("it ends with %+v, want %q", e, want)
		}
	})
}

// kyverno makes a ClusterPolicy for the pods of the namespace that a selector has, all with "", and waits until it refuses one with these labels. autogen are the kinds that make
// pods, Jobs for example, for which Kyverno derives rules of its own; by default for all, and "none" for none.
func (b bed) kyverno(t *testing.T, selector string, labels map[string]string, autogen string) (policy string) {
	t.Helper()
	policy = "require-labels-" + b.namespace
	b.Invite(t, kubetest.Kyverno, b.namespace)
	if selector != "" { // for rules with one Kyverno makes no others
		selector = ", selector: " + selector
	}
	b.Create(t, "", fmt.Sprintf(`
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: %s, annotations: {pod-policies.kyverno.io/autogen-controllers: %q}}
spec:
  background: false
  rules:
  - name: check
    match: {any: [{resources: {kinds: [Pod], namespaces: [%s]%s}}]}
    validate: {failureAction: Enforce, message: "label 'team' is required", pattern: {metadata: {labels: {team: "?*"}}}}`, policy, autogen, b.namespace, selector))
	t.Cleanup(func() { b.remove(t, "clusterpolicies.v1.kyverno.io", policy) })
	pod := anyPod()
	pod.Labels = labels
	b.awaitRefused(t, pod, policy)
	return policy
}

// remove deletes an object for the whole cluster; resource is one for schema.ParseResourceArg.
func (b bed) remove(t *testing.T, resource, name string) {
	r, _ := schema.ParseResourceArg(resource)
	if err := b.Dynamic.Resource(*r).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

const (
	headPods   = "{matchLabels: {ray.io/node-type: head}}"
	workerPods = "{matchLabels: {ray.io/group: w}}"
	otherPods  = "{matchExpressions: [{key: ray.io/node-type, operator: DoesNotExist}]}"
)

// Selectors of pods, with labels that they have.
var (
	headLabels, workerLabels = map[string]string{"ray.io/node-type": "head"}, map[string]string{"ray.io/group": "w"}
)

// gatekeeper makes a constraint for pods of the namespace, and its template, which is the example of Gatekeeper's documentation.
func (b bed) gatekeeper(t *testing.T, selector string) {
	t.Helper()
	b.Invite(t, kubetest.Gatekeeper, b.namespace)
	b.Create(t, "", `
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k8srequiredlabels}
spec:
  crd: {spec: {names: {kind: K8sRequiredLabels}, validation: {openAPIV3Schema: {type: object, properties: {labels: {type: array, items: {type: string}}}}}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package k8srequiredlabels
      violation[{"msg": msg}] {
        provided := {label | input.review.object.metadata.labels[label]}
        required := {label | label := input.parameters.labels[_]}
        missing := required - provided
        count(missing) > 0
        msg := sprintf("you must provide labels: %v", [missing])
      }`)
	t.Cleanup(func() { b.remove(t, "constrainttemplates.v1.templates.gatekeeper.sh", "k8srequiredlabels") })
	const constraints = "k8srequiredlabels.v1beta1.constraints.gatekeeper.sh"
	kubetest.Await(t, "the constraint's kind", func(ctx context.Context) error {
		r, _ := schema.ParseResourceArg(constraints)
		_, err := b.Dynamic.Resource(*r).List(ctx, metav1.ListOptions{})
		return err
	})
	b.Create(t, "", fmt.Sprintf(`{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: K8sRequiredLabels, metadata: {name: must-have-team},
  spec: {match: {kinds: [{apiGroups: [""], kinds: [Pod]}], namespaces: [%s], labelSelector: %s}, parameters: {labels: [team]}}}`, b.namespace, selector))
	t.Cleanup(func() { b.remove(t, constraints, "must-have-team") })
	pod := anyPod()
	pod.Labels = headLabels
	b.awaitRefused(t, pod, "[must-have-team]")
}

// kyvernoServices makes a ValidatingPolicy, Kyverno's kind of policy since 1.14, that refuses the namespace's Services, and waits until it does.
func (b bed) kyvernoServices(t *testing.T) (policy string) {
	t.Helper()
	policy = "services-" + b.namespace
	b.Invite(t, kubetest.Kyverno, b.namespace)
	b.Create(t, "", fmt.Sprintf(`
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: %s}
spec:
  validationActions: [Deny]
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [services]}]
  validations: [{expression: "has(object.metadata.labels) && 'team' in object.metadata.labels", message: label team is required}]`, policy, b.namespace))
	t.Cleanup(func() { b.remove(t, "validatingpolicies.v1.policies.kyverno.io", policy) })
	b.awaitRefusal(t, policy, func(ctx context.Context, o metav1.CreateOptions) error {
		_, err := b.Core.CoreV1().Services(b.namespace).Create(ctx, anyService(), o)
		return err
	})
	return policy
}
