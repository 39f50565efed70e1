package clusters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/clusters/dump"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sharedfile"
)

type debugDumpOptions struct {
	config    app.ConfigFlags
	name      string
	build     string // of rayctl
	file      string
	force     bool
	driverLog bool
}

// NewDebugDump is `rayctl debug-dump`. build is the version of this rayctl.
func NewDebugDump(a *app.App, build string) *cobra.Command {
	o := &debugDumpOptions{build: build}
	c := &cobra.Command{
		Use:   "debug-dump [NAME] [-o FILE]",
		Short: "Collect what a maintainer needs about a cluster, without secrets",
		Long: "debug-dump writes one archive about a cluster, living or ended: rayctl's version, state and result, the cluster file as it was launched, the keeper's orders and\n" +
			"log, Ray's own logs of the nodes, and what Slurm knows of its jobs or Kubernetes of its objects. Of a long text it keeps the end. For each part that cannot\n" +
			"be read, problems.txt in the archive has a line. The output of your own program is not in the archive, unless you give --driver-log.\n" +
			"Tokens, values of secrets, and what has the name or the form of a secret are replaced. Names of users, machines and directories, and your command stay:\n" +
			"look at the archive before you send it.",
		Example: "  rayctl debug-dump grpo-x1f3a\n  rayctl debug-dump dev -o dev.tar.gz --driver-log\n  rayctl debug-dump dev -o - | tar -tzf -",
		Args:    app.NoDash(1, "one name"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = app.First(args)
			return a.Action(func(ctx context.Context) error { return runDebugDump(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.CompleteClusters,
	}
	o.config.AddSelection(c)
	c.Flags().StringVarP(&o.file, "output", "o", "", "write to this `FILE`, - for stdout (default: rayctl-debug-NAME-TIME.tar.gz)")
	c.Flags().BoolVar(&o.force, "force", false, "overwrite a file that is there")
	c.Flags().BoolVar(&o.driverLog, "driver-log", false, "also the output of your program: the end of the driver's log, logs of workers and of submitted jobs")
	return c
}

// runDebugDump collects, and writes the archive at the end.
func runDebugDump(ctx context.Context, a *app.App, o *debugDumpOptions) error {
	if err := o.validate(a); err != nil {
		return err
	}
	c, err := a.Find(ctx, app.FindOptions{Name: o.name, Config: &o.config, Ended: true})
	if err != nil {
		return err
	}
	begun := a.Now().UTC()
	top := "rayctl-debug-" + string(c.ID) + begun.Format("-20060102-150405")
	if o.file == "" {
		o.file = top + ".tar.gz"
	}
	if err := o.refuseTaken(); err != nil {
		return err
	}
	archive := dump.New(o.driverLog)
	d := dump.Collector{App: a, Cluster: c, Archive: archive, Receipt: a.SeenEnd(c.Launcher.Name(), string(c.ID))}
	if err := d.Collect(ctx); err != nil {
		return err
	}
	version := fmt.Sprintf("%s\nlauncher %s, written at %s\n", o.build, c.Launcher.Name(), begun.Format(time.RFC3339))
	archive.Add("version.txt", []byte(version), int64(len(version)))
	problems, files := archive.Problems(), archive.Finish()
	var packed bytes.Buffer
	if err := dump.Write(&packed, top, files, begun); err != nil {
		return err
	}
	if err := o.write(a, packed.Bytes()); err != nil {
		return err
	}
	o.tell(a, files, problems)
	return nil
}

func (o *debugDumpOptions) validate(a *app.App) error {
	if slices.Contains([]string{app.FormatJSON, app.FormatYAML, app.FormatName, app.FormatWide}, o.file) {
		return app.UsageError("-o takes the archive's file, and `rayctl status -o "+o.file+"` prints a cluster's state", "debug-dump has no output format %s", o.file)
	}
	if o.file == "-" && a.OutTTY {
		return app.UsageError("redirect stdout, or give a FILE", "an archive is not written to a terminal")
	}
	return nil
}

// refuseTaken refuses a file that exists, unless --force is given, or whose directory does not exist.
func (o *debugDumpOptions) refuseTaken() error {
	if o.file == "-" || o.force {
		return nil
	}
	_, err := os.Lstat(o.file)
	if err == nil {
		return launcher.Fail(runstate.CodeUsage, fs.ErrExist, "give --force, or another FILE with -o", "%s already exists", o.file)
	}
	if dir := filepath.Dir(o.file); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(dir); err != nil {
			return launcher.Fail(runstate.CodeUsage, err, "make it first, or give another FILE", "-o: there is no directory %s", dir)
		}
	}
	return nil
}

// write writes the archive, which only the user may read. Without --force it replaces no file, not even one that was made after refuseTaken looked.
func (o *debugDumpOptions) write(a *app.App, packed []byte) error {
	switch {
	case o.file == "-":
		_, err := a.Out.Write(packed)
		return err
	case o.force:
		return sharedfile.Write(o.file, packed, 0o600)
	}
	file, err := os.OpenFile(o.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return o.refuseTaken()
	}
	if err != nil {
		return err
	}
	_, err = file.Write(packed)
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(o.file) // a part of an archive is of no use
	}
	return err
}

// tell says what the archive holds.
func (o *debugDumpOptions) tell(a *app.App, files []dump.File, problems int) {
	parts := map[string]int{}
	for _, f := range files {
		part, _, _ := strings.Cut(f.Name, "/")
		parts[part]++
	}
	var held []string
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		if n := parts[part]; n > 1 {
			part += fmt.Sprintf("/ (%d files)", n)
		}
		held = append(held, part)
	}
	a.UI.Note("the archive holds %s", strings.Join(held, ", "))
	if problems > 0 {
		a.UI.Note("%d parts could not be read: problems.txt in the archive names them", problems)
	}
	if !o.driverLog {
		a.UI.Note("the archive does not have the output of your program: --driver-log adds its last part")
	}
	if o.file == "-" {
		a.UI.Note("look at the archive before you send it: rayctl removed only secrets that it recognized by value, name or form")
		return
	}
	fmt.Fprintln(a.Out, o.file)
	a.UI.Note("look at the archive before you send it, with `tar -xzOf %s | less`: rayctl removed only secrets that it recognized by value, name or form", shellescape.Quote(o.file))
}
