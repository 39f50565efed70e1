package files

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher/spec/schema"
)

// NewSchema is `rayctl schema`.
func NewSchema(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of the cluster file, for editors",
		Example: "  rayctl schema > rayctl.schema.json\n  # rayctl.yaml begins with: # yaml-language-server: $schema=rayctl.schema.json",
		Args:    app.NoDash(0, "no arguments"),
		RunE:    a.Action(func(context.Context) error { return runSchema(a) }),
	}
}

// runSchema prints the schema.
func runSchema(a *app.App) error {
	data, err := schema.JSON()
	if err != nil {
		return err
	}
	_, err = a.Out.Write(data)
	return err
}
