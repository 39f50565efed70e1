package build

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Versions of what sites have beside KubeRay. Kueue stores its objects as kueue.x-k8s.io/v1beta2.
const (
	kueueVersion      = "v0.17.0"
	kyvernoVersion    = "v1.19.1"
	gatekeeperVersion = "v3.23.1"
)

// Guests builds what only some tests start beside the testbed's own parts.
func Guests(ctx context.Context) error {
	_, err := buildAll(ctx, []Module{kueue(), kyverno(), gatekeeper()})
	return err
}

// Kueue is a queueing system: bin/kueue, share/crds and share/webhook.
func Kueue(ctx context.Context) (Built, error) { return kueue().Build(ctx) }

// Kyverno is a policy engine: bin/kyverno and share/crds.
func Kyverno(ctx context.Context) (Built, error) { return kyverno().Build(ctx) }

// Gatekeeper is a policy engine: bin/gatekeeper and share/crds.
func Gatekeeper(ctx context.Context) (Built, error) { return gatekeeper().Build(ctx) }

func kueue() Module {
	return Module{
		Name: "kueue", Path: "sigs.k8s.io/kueue", Version: kueueVersion,
		Programs: map[string]string{"kueue": "./cmd/kueue"},
		Files:    map[string]string{"config/components/crd/bases": "crds", "config/components/webhook": "webhook"},
		Patch:    patchCertificates, Patched: "certificates",
	}
}

func kyverno() Module {
	return Module{
		Name: "kyverno", Path: "github.com/kyverno/kyverno", Version: kyvernoVersion,
		Programs: map[string]string{"kyverno": "./cmd/kyverno"},
		Files:    map[string]string{"config/crds": "crds"},
	}
}

func gatekeeper() Module {
	return Module{
		Name: "gatekeeper", Path: "github.com/open-policy-agent/gatekeeper/v3", Version: gatekeeperVersion,
		Programs: map[string]string{"gatekeeper": "."},
		Files:    map[string]string{"charts/gatekeeper/crds": "crds"},
	}
}

// patchCertificates makes Kueue take the certificates of its metrics from the directory of its webhooks', instead of one that only a pod has.
func patchCertificates(dir string) error {
	main := filepath.Join(dir, "cmd/kueue/main.go")
	text, err := os.ReadFile(main)
	if err != nil {
		return err
	}
	const fixed = `"/etc/kueue/metrics/certs"`
	if bytes.Count(text, []byte(fixed)) != 1 {
		return fmt.Errorf("%s no longer has %s once", main, fixed)
	}
	return os.WriteFile(main, bytes.Replace(text, []byte(fixed), []byte("cfg.Webhook.CertDir"), 1), 0o644)
}
