package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/launcher/spec"
)

func newSchema(a *App) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of the cluster file, for editors",
		Example: "  rayctl schema > rayctl.schema.json\n  # first line of rayctl.yaml:  # yaml-language-server: $schema=rayctl.schema.json",
		Args:    noDash(0, "no arguments"),
		RunE:    a.action(func(context.Context) error { return runSchema(a) }),
	}
}

// runSchema prints the schema.
func runSchema(a *App) error {
	data, err := spec.Schema()
	if err != nil {
		return err
	}
	_, err = a.Out.Write(data)
	return err
}
