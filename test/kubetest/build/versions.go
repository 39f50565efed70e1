package build

import (
	"fmt"
	"os"
)

// Versions of all Go modules that are built.
type Versions struct {
	Kubernetes, KubeRay, Volcano, VolcanoAPIs, Etcd, CoreDNS, KWOK string
}

// Default is the set of versions for `make test`.
var Default = Versions{
	Kubernetes: "v1.34.4", KubeRay: "v1.6.2", Volcano: "v1.14.1", VolcanoAPIs: "v1.14.0",
	Etcd: "v3.6.5", CoreDNS: "v1.12.4", KWOK: "v0.7.0",
}

// setVariable selects another set, by name, for tests without a set of their own.
const setVariable = "RAYCTL_TEST_KUBE"

// Chosen is the set named by RAYCTL_TEST_KUBE: "oldest" and "newest" are the limits of rayctl's support, which `make test-versions` runs.
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
