package build

import (
	"fmt"
	"os"
)

// Versions of everything that is built from a Go module.
type Versions struct {
	Kubernetes, KubeRay, Volcano, VolcanoAPIs, Etcd, CoreDNS, KWOK string
}

// Default is the set that `make test` runs.
var Default = Versions{
	Kubernetes: "v1.34.4", KubeRay: "v1.6.2", Volcano: "v1.14.1", VolcanoAPIs: "v1.14.0",
	Etcd: "v3.6.5", CoreDNS: "v1.12.4", KWOK: "v0.7.0",
}

// setVariable chooses another set, by name, for tests that ask for none.
const setVariable = "RAYCTL_TEST_KUBE"

// Chosen is the set that RAYCTL_TEST_KUBE names: "oldest" and "newest" are what rayctl supports, as `make test-versions` runs it.
func Chosen() (Versions, error) {
	v := Default
	switch name := os.Getenv(setVariable); name {
	case "", "default":
	case "oldest":
		v.Kubernetes, v.KubeRay = "v1.32.0", "v1.4.2"
	case "newest":
		v.Kubernetes = "v1.36.3"
	default:
		return v, fmt.Errorf("%s=%s: there are default, oldest and newest", setVariable, name)
	}
	return v, nil
}
