package orders

import "github.com/rayctl/rayctl/launcher/spec"

// fastStartTested are the Ray versions that the project's tests start with keeper/rayctl_keeper/rayhook.
const fastStartTested = "2.60.0"

// FastStart is ray.fastStart in the form for the keeper and the nodes (RAYCTL_FAST_START).
func FastStart(s *spec.ClusterSpec) string {
	switch wish := s.Ray.FastStart; {
	case wish == nil:
		return fastStartTested
	case *wish:
		return "always"
	default:
		return "never"
	}
}
