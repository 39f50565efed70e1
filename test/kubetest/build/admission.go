package build

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// kueueVersion stores its objects as kueue.x-k8s.io/v1beta2.
const kueueVersion = "v0.17.0"

// Kueue is the queueing system that a test may start beside the cluster's own parts: bin/kueue, share/crds and share/webhook.
func Kueue(ctx context.Context) (Built, error) {
	return Module{
		Name: "kueue", Path: "sigs.k8s.io/kueue", Version: kueueVersion,
		Programs: map[string]string{"kueue": "./cmd/kueue"},
		Files:    map[string]string{"config/components/crd/bases": "crds", "config/components/webhook": "webhook"},
		Patch:    patchCertificates, Patched: "certificates",
	}.Build(ctx)
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
