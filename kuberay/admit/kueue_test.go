package admit_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kyaml "sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/kuberay/admit"
)

// TestWhyHeld: what Workloads of the real Kueue 0.17 say, in a sentence.
func TestWhyHeld(t *testing.T) {
	for want, status := range map[string]string{
		"":                              "{}",
		"LocalQueue team doesn't exist": `{conditions: [{type: QuotaReserved, status: "False", reason: Inadmissible, message: LocalQueue team doesn't exist}]}`,
		"Preempted to accommodate b; no room yet": `{conditions: [{type: Evicted, status: "True", message: Preempted to accommodate b}, {type: QuotaReserved, status: "False", message: no room yet}]}`,
		"ClusterQueue q is stopped":               `{conditions: [{type: Evicted, status: "True", message: ClusterQueue q is stopped}, {type: QuotaReserved, status: "False", message: ClusterQueue q is stopped}]}`,
		"admission check budget is Pending: asks": `{conditions: [{type: QuotaReserved, status: "True", message: reserved}], admissionChecks: [{name: ok, state: Ready}, {name: budget, state: Pending, message: asks}]}`,
	} {
		var s map[string]any
		if err := kyaml.Unmarshal([]byte(status), &s); err != nil {
			t.Fatal(err)
		}
		if got := (admit.Kueue{}).WhyHeld(&unstructured.Unstructured{Object: map[string]any{"status": s}}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
