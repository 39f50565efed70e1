package objects

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rayctl/rayctl/launcher"
)

// TestKeptPackages: packages are kept for the next keeper where a Secret has room for all of them.
func TestKeptPackages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "package.zip")
	if err := os.WriteFile(path, []byte("zipped"), 0o600); err != nil {
		t.Fatal(err)
	}
	packages := &launcher.Packages{Files: []launcher.PackageFile{{URI: "gcs://_ray_pkg_a.zip", Path: path, Size: 6}, {URI: "gcs://_ray_pkg_b.zip", Path: path, Size: keepLimit - 6}}}
	p := planOf(t, smallFile, true)
	p.Kept = Keepable(packages)
	secret, err := p.PackagesSecret()
	if err != nil || secret == nil || len(secret.Data) != 2 || string(secret.Data["package-a.zip"]) != "zipped" {
		t.Fatalf("the Secret of two packages: %+v, %v", secret, err)
	}
	volumes := p.KeeperJob().Spec.Template.Spec.Volumes
	if v := volumes[len(volumes)-1]; v.Secret == nil || v.Secret.SecretName != secret.Name || len(v.Secret.Items) != 2 {
		t.Errorf("the keeper's pod has not these packages: %+v", volumes)
	}
	packages.Files[1].Size++
	p.Kept = Keepable(packages)
	if secret, err := p.PackagesSecret(); secret != nil || err != nil || len(p.KeeperJob().Spec.Template.Spec.Volumes) != len(volumes)-1 {
		t.Errorf("more than a Secret has room for: %+v, %v", secret, err)
	}
}
