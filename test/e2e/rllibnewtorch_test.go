//go:build matrix

package e2e

import "testing"

// TestRLlibNewTorch: with the torch that `pip install torch` brings to Linux, which is for CUDA: 3 GB to load, 6 GB of disk until the test ends.
func TestRLlibNewTorch(t *testing.T) {
	u := exampleUser(t)
	u.env = append(u.env, "XDG_CACHE_HOME="+t.TempDir())
	u.learns("--set", `local.packages=["ray[rllib]", "torch==2.15.0"]`)
}
