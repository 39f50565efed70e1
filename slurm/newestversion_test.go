//go:build linux && matrix

package slurm_test

import (
	"testing"

	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestNewestVersion does with the newest Slurm what TestOldestVersion does with the oldest.
func TestNewestVersion(t *testing.T) { differs(t, slurmtest.Options{Version: slurmtest.NewestVersion}) }
