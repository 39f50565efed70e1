package orders

import (
	"encoding/json"
	"path"
	"strings"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// PackagePrefix begins the names of packages in a run directory.
const PackagePrefix = "package-"

// PackageName is package-HASH.zip for gcs://_ray_pkg_HASH.zip.
func PackageName(uri string) string {
	return PackagePrefix + strings.TrimPrefix(path.Base(uri), "_ray_pkg_")
}

// Commit is the commit document of a launch with these packages; nil: none.
func Commit(p *launcher.Packages) (keeper.Commit, error) {
	var document keeper.Commit
	if p == nil {
		return document, nil
	}
	for _, f := range p.Files {
		document.Packages = append(document.Packages, keeper.Package{URI: f.URI, File: PackageName(f.URI)})
	}
	if p.RuntimeEnv == nil {
		return document, nil
	}
	var err error
	if document.RuntimeEnv, err = json.Marshal(p.RuntimeEnv); err != nil {
		return document, launcher.Fail(runstate.CodeSpec, err, "give only values there that JSON has", "job.runtimeEnv cannot be sent to Ray: %v", err)
	}
	return document, nil
}
