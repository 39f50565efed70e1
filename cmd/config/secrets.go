package config

import (
	"os"
	"strings"
	"unicode/utf8"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// ReadSecrets reads the values of spec.Secrets from this machine; those of Kubernetes stay there.
func ReadSecrets(s *spec.ClusterSpec, getenv func(string) string) (map[string]string, error) {
	values := map[string]string{}
	for _, secret := range s.Secrets {
		switch {
		case secret.SecretKeyRef != nil:
		case secret.File != "":
			data, err := os.ReadFile(spec.ExpandHome(secret.File))
			if err != nil {
				return nil, launcher.Fail(runstate.CodeConfig, err, "name a file that you may read", "secret %s cannot be read: %v", secret.Name, err)
			}
			values[secret.Name] = strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
		default:
			value := getenv(secret.Name)
			if value == "" {
				return nil, launcher.Fail(runstate.CodeConfig, nil, "export it, or give the secret a file", "secret %s is not set in your environment", secret.Name)
			}
			values[secret.Name] = value
		}
		if err := checkSecret(secret.Name, values); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// checkSecret refuses a value that cannot become an environment variable of the driver unchanged: it is sent as JSON and becomes a C string.
func checkSecret(name string, values map[string]string) error {
	value, here := values[name]
	why := ""
	switch {
	case !here:
	case strings.ContainsRune(value, 0):
		why = "it has a NUL byte"
	case !utf8.ValidString(value):
		why = "it is not UTF-8"
	}
	if why == "" {
		return nil
	}
	return launcher.Fail(runstate.CodeConfig, nil, "encode it, as with base64, and decode it in the driver", "secret %s cannot be an environment variable: %s", name, why)
}
