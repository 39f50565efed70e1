package cmd

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
)

// Version of this build, set by the linker; "" means the module's, as in a build by `go install`.
var Version string

type versionOptions struct{ output app.Output }

func newVersion(a *app.App) *cobra.Command {
	o := &versionOptions{}
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print rayctl's version",
		Example: "  rayctl version -o json",
		Args:    app.NoDash(0, "no arguments"),
		RunE:    func(*cobra.Command, []string) error { return runVersion(a, o) },
	}
	o.output.Add(c, app.FormatJSON, app.FormatYAML)
	return c
}

// runVersion prints what this build is.
func runVersion(a *app.App, o *versionOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	b := thisBuild()
	if done, err := o.output.Structured(a.Out, b); done || err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.Out, b)
	return err
}

type build struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	version := Version
	if info, ok := debug.ReadBuildInfo(); ok && version == "" && info.Main.Version != "(devel)" {
		version = info.Main.Version
	}
	return build{cmp.Or(version, "dev"), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// releaseTag is the version of a release, as the tag in the repository has it.
var releaseTag = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// source is the tag of the build's release, or else the commit that it was made of; "" if neither is known.
func (b build) source() string {
	if tag := releaseTag.FindString(b.Version); tag != "" {
		return tag
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

func (b build) String() string { return fmt.Sprintf("rayctl %s (%s, %s)", b.Version, b.Go, b.Platform) }
