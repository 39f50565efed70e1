//go:build linux

package slurm_test

import (
	"testing"

	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestCachedFiles is a site whose homes are on NFSv3 with attribute caching as it is by default: what one host writes others see seconds later.
func TestCachedFiles(t *testing.T) {
	pace.Parallel(t)
	b := start(t, slurmtest.Options{Nodes: 3, CachedFiles: true})
	t.Run("Conformance", func(t *testing.T) { conformance.Run(t, b.config(t)) })
	b.leavesNothing(t)
}
