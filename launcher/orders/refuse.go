package orders

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Refuse rejects what no launcher outside Kubernetes can do: a name that is no DNS label, and secrets without a value on this client.
func Refuse(s *spec.ClusterSpec, p launcher.Payload) error {
	if len(validation.IsDNS1123Label(s.Name)) > 0 || len(s.Name) > spec.MaxNameLength {
		return launcher.Fail(runstate.CodeSpec, nil, fmt.Sprintf("use at most %d of a-z, 0-9 and -, beginning and ending with a letter or digit", spec.MaxNameLength),
			"%q cannot be a cluster's name", s.Name)
	}
	for _, secret := range s.Secrets {
		if secret.SecretKeyRef != nil {
			return launcher.Fail(runstate.CodeSpec, nil, "give it as an environment variable or a file",
				"the secret %s is a key of a Kubernetes Secret, which the %s launcher does not have", secret.Name, s.Launcher)
		}
		if _, ok := p.Secrets[secret.Name]; !ok {
			return launcher.Fail(runstate.CodeSpec, nil, "set it in your environment, or give its file", "the secret %s has no value", secret.Name)
		}
	}
	return nil
}
