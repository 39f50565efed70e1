package app

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher/spec"
)

// ServeConfig is Serve's config beside a cluster file, as the template of init has it, or in the current directory where there is no file; "" if there is none.
func ServeConfig(file string) string {
	config := "serve.yaml"
	if file != "" {
		config = filepath.Join(filepath.Dir(file), config)
	}
	if info, err := os.Stat(config); err != nil || info.IsDir() {
		return ""
	}
	here, err := os.Getwd()
	if err != nil || !filepath.IsAbs(config) {
		return config
	}
	if rel, err := filepath.Rel(here, config); err == nil {
		return rel
	}
	return config
}

// rayWithServe is what brings Ray Serve.
const rayWithServe = "ray[serve]"

var (
	// itsApplications is the key that each config of Serve has.
	itsApplications = regexp.MustCompile(`(?m)^["']?applications["']?:`)
	// bringsServe matches packages that have it, or a lock, which may.
	bringsServe = regexp.MustCompile(`(?i)^ *ray *\[[^]]*\b(serve|llm|all)\b|uv\.lock`)
)

// AddServe adds Ray Serve to the packages of a cluster that Serve's config lies beside, where rayctl makes the environment: without Serve the config could only be
// applied after the cluster is made anew. It returns that config, "" if it adds nothing, and what takes it back.
func AddServe(c *config.Loaded) (config string, undo func()) {
	packagesOf, config := spec.SubstrateOf(c.Spec.Launcher).Environment, ServeConfig(c.File)
	if packagesOf == nil || config == "" {
		return "", nil
	}
	packages := packagesOf(c.Spec)
	text, err := os.ReadFile(config)
	if packages == nil || err != nil || !itsApplications.Match(text) || slices.ContainsFunc(packages.Packages, bringsServe.MatchString) {
		return "", nil
	}
	before := packages.Packages
	packages.Packages = append(slices.Clone(before), rayWithServe)
	return config, func() { packages.Packages = before }
}
