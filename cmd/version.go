package cmd

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

type versionOptions struct{ output output }

func newVersion(a *App) *cobra.Command {
	o := &versionOptions{}
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print rayctl's version",
		Example: "  rayctl version -o json",
		Args:    noDash(0, "no arguments"),
		RunE:    func(*cobra.Command, []string) error { return runVersion(a, o) },
	}
	o.output.add(c, formatJSON, formatYAML)
	return c
}

// runVersion prints what this build is.
func runVersion(a *App, o *versionOptions) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	v := struct {
		Version  string `json:"version"`
		Go       string `json:"go"`
		Platform string `json:"platform"`
	}{Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	if done, err := o.output.structured(a.Out, v); done || err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.Out, "rayctl %s (%s, %s)\n", v.Version, v.Go, v.Platform)
	return err
}
