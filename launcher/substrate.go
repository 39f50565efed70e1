package launcher

import (
	"log/slog"

	"github.com/rayctl/rayctl/launcher/spec"
)

// Substrate is a launcher as a build of rayctl has it: its part of the cluster file, and how it is made.
type Substrate struct {
	*spec.Substrate
	// New makes the launcher for a cluster file, whose section configures how the substrate is reached. It touches nothing yet.
	New func(s *spec.ClusterSpec, log *slog.Logger) (Launcher, error)
}
