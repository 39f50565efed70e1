package kuberay

import (
	"context"
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
)

// A keeper that is lost with its pod while the cluster waits for room takes along the packages that the client gave it. Small ones, as most
// working directories are, are also kept in a Secret, from where the next keeper's pod has them, whether or not a client watches. It is not the
// Secret of the cluster: that one is read for each pod of the gang and at each command, and has to have room for notes.
// Larger ones are sent again by a client that has launched the cluster and still watches it.

const (
	packageFiles = "/rayctl-packages" // where the keeper's pod has the Secret's packages

	// keepLimit is what the packages of a launch may have together: a Secret holds 1 MiB (MaxSecretSize of k8s.io/api/core/v1).
	keepLimit = corev1.MaxSecretSize
)

// keepable are the packages that a Secret has room for: all of a launch or none, for a job needs them all.
func keepable(packages *launcher.Packages) []launcher.PackageFile {
	total := int64(0)
	for _, f := range packages.Files {
		total += f.Size
	}
	if total > keepLimit {
		return nil
	}
	return packages.Files
}

// packagesSecret has a key for each package; nil: there are none to keep.
func (p *plan) packagesSecret() (*corev1.Secret, error) {
	if len(p.kept) == 0 {
		return nil, nil
	}
	s := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: p.roleMeta(packagesName(p.spec.Name), roleKeeper),
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{}, Immutable: ptr.To(true), // kubelets need not watch it
	}
	s.OwnerReferences = p.ownedWhole()
	for _, f := range p.kept {
		content, err := os.ReadFile(f.Path)
		if err != nil {
			return nil, fmt.Errorf("open the package: %w", err)
		}
		s.Data[orders.PackageName(f.URI)] = content
	}
	return s, nil
}

// createPackages creates the Secret of the packages, if there are any to keep.
func (c *client) createPackages(ctx context.Context, p *plan) error {
	secret, err := p.packagesSecret()
	if secret == nil || err != nil {
		return err
	}
	return c.createOwn(ctx, secrets, secret, p.spec.Name)
}

// withPackages mounts the Secret into the keeper's pod. A keeper starts without it, too, should somebody have deleted it.
func (p *plan) withPackages(pod *corev1.PodSpec) {
	if len(p.kept) == 0 {
		return
	}
	var items []corev1.KeyToPath
	for _, f := range p.kept {
		items = append(items, corev1.KeyToPath{Key: orders.PackageName(f.URI), Path: orders.PackageName(f.URI)})
	}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "packages", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: packagesName(p.spec.Name), Items: items, Optional: ptr.To(true),
	}}})
	pod.Containers[0].Command = append(pod.Containers[0].Command, packageFiles)
	pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "packages", MountPath: packageFiles, ReadOnly: true})
}

// keepPayload notes what a cluster is launched with, for giveAgain.
func (l *Launcher) keepPayload(id launcher.ID, pay launcher.Payload) {
	pay.Progress = nil // that was the launch's
	l.mu.Lock()
	defer l.mu.Unlock()
	l.payloads[id] = pay
}

// launchedHere says whether this process has launched the cluster.
func (l *Launcher) launchedHere(id launcher.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, launched := l.payloads[id]
	return launched
}

// giveAgain sends a keeper the packages that it misses, if this client has launched its cluster. Packing again is quick: packages are cached.
func (l *Launcher) giveAgain(ctx context.Context, id launcher.ID, k *keeper.Client, missing []string) error {
	l.mu.Lock()
	pay, launched := l.payloads[id]
	l.mu.Unlock()
	if len(missing) == 0 || !launched {
		return nil
	}
	packages, err := pack(ctx, pay)
	if err != nil {
		return err
	}
	again := &launcher.Packages{}
	for _, f := range packages.Files {
		if slices.Contains(missing, orders.PackageName(f.URI)) {
			again.Files = append(again.Files, f)
		}
	}
	return send(ctx, k, again, pay)
}
