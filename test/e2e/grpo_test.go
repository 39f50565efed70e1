package e2e

import (
	"testing"
)

// TestGRPO is `make demo`: the policy really learns, from near chance to 0.95.
func TestGRPO(t *testing.T) {
	u := exampleUser(t)
	learned(t, u.runExample("run", "-f", example(t, "grpo", "rayctl.yaml")), 0.95, 10)
}

// TestGRPOAlgorithm runs the example's own tests of advantages, clipping, KL and resuming.
func TestGRPOAlgorithm(t *testing.T) {
	u := exampleUser(t)
	r := u.runExample("run", "-f", example(t, "grpo", "rayctl.yaml"), "--set", "workers.rollout.replicas=0", "--", "python", "-m", "unittest", "discover", "tests")
	contains(t, "unittest's report", r.out, "\nOK")
}
