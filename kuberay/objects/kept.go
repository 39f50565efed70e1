package objects

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/orders"
)

// A keeper that is lost with its pod while the cluster waits for room loses the packages that the client sent to it. Small ones, as most
// working directories are, are also kept in a Secret, from where the next keeper's pod has them, whether or not a client watches. It is not the
// Secret of the cluster: that one is read for each pod of the gang and at each command, and has to have room for notes.
// Larger ones are sent again by a client that has launched the cluster and still watches it.

const (
	packageFiles = "/rayctl-packages" // where the keeper's pod has the Secret's packages

	// keepLimit is what the packages of a launch may have together: a Secret holds 1 MiB (MaxSecretSize of k8s.io/api/core/v1).
	keepLimit = corev1.MaxSecretSize
)

// Keepable are the packages that a Secret has room for: all of a launch or none, for a job needs them all.
func Keepable(packages *launcher.Packages) []launcher.PackageFile {
	total := int64(0)
	for _, f := range packages.Files {
		total += f.Size
	}
	if total > keepLimit {
		return nil
	}
	return packages.Files
}

// PackagesSecret has a key for each package; nil: there are none to keep.
func (p *Plan) PackagesSecret() (*corev1.Secret, error) {
	if len(p.Kept) == 0 {
		return nil, nil
	}
	s := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: p.roleMeta(packagesName(p.Spec.Name), RoleKeeper),
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{}, Immutable: ptr.To(true), // kubelets need not watch it
	}
	s.OwnerReferences = p.ownedWhole()
	for _, f := range p.Kept {
		content, err := os.ReadFile(f.Path)
		if err != nil {
			return nil, fmt.Errorf("open the package: %w", err)
		}
		s.Data[orders.PackageName(f.URI)] = content
	}
	return s, nil
}

// withPackages mounts the Secret into the keeper's pod. A keeper starts without it, too, should somebody have deleted it.
func (p *Plan) withPackages(pod *corev1.PodSpec) {
	if len(p.Kept) == 0 {
		return
	}
	var items []corev1.KeyToPath
	for _, f := range p.Kept {
		items = append(items, corev1.KeyToPath{Key: orders.PackageName(f.URI), Path: orders.PackageName(f.URI)})
	}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "packages", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: packagesName(p.Spec.Name), Items: items, Optional: ptr.To(true),
	}}})
	pod.Containers[0].Command = append(pod.Containers[0].Command, packageFiles)
	pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "packages", MountPath: packageFiles, ReadOnly: true})
}
