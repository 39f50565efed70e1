package slurm

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/templates"
)

// plan gathers what the orders follow from.
func (c *cluster) plan(disconnect time.Duration) script.Plan {
	r := c.record
	return script.Plan{Spec: r.Spec, Python: r.Python, Programs: r.Programs, Run: c.dir, Nonce: r.Nonce, Disconnect: disconnect}
}

// commitName is the file whose appearance is the commit; until then it has another name.
var commitName = path.Join(firstDir, keeper.CommitFile)

// stage writes all files but the commit.
func (c *cluster) stage(ctx context.Context, p launcher.Payload) error {
	f, plan := c.l.site.files, c.plan(p.EndOnDisconnect)
	text, err := plan.Script()
	if err != nil {
		return err
	}
	if err := c.l.writePrograms(ctx, c.record.Programs); err != nil {
		return err
	}
	document, err := c.pack(ctx, p)
	if err != nil {
		return err
	}
	o := plan.Orders()
	if o.Job != nil && !spec.IsURI(o.Job.OutputDir) {
		if err := f.Make(ctx, o.Job.OutputDir, 0o755); err != nil {
			return launcher.Fail(runstate.CodeSpec, err, "choose another job.outputDir", "cannot make the output directory: %v", err)
		}
	}
	secrets := map[string]string{}
	for _, s := range c.record.Spec.Secrets {
		secrets[s.Name] = p.Secrets[s.Name]
	}
	if len(secrets) > 0 {
		if err := f.WriteJSON(ctx, c.path(firstDir, keeper.SecretsFile), secrets, false); err != nil {
			return err
		}
	}
	for _, file := range []struct {
		name    string
		content []byte
	}{{scriptFile, []byte(text)}, {path.Join(firstDir, keeper.TokenFile), []byte(keeper.NewToken())}, {commitName + ".staged", document}} {
		if err := f.WriteBytes(ctx, c.path(file.name), file.content); err != nil {
			return err
		}
	}
	return f.WriteJSON(ctx, c.path(firstDir, keeper.OrdersFile), o, false)
}

// pack lets the client pack, uploads the packages, and returns the commit document.
func (c *cluster) pack(ctx context.Context, p launcher.Payload) ([]byte, error) {
	var packages *launcher.Packages
	if p.Packages != nil {
		var err error
		if packages, err = p.Packages(ctx); err != nil {
			return nil, err
		}
	}
	if packages != nil {
		for _, file := range packages.Files {
			sent := &launcher.Meter{Progress: launcher.Progress{Text: "uploading working directory", Total: file.Size}, Report: p.Progress}
			if err := c.l.site.files.Upload(ctx, file.Path, c.path(firstDir, orders.PackageName(file.URI)), sent); err != nil {
				return nil, err
			}
		}
	}
	document, err := orders.Commit(packages)
	if err != nil {
		return nil, err
	}
	return json.Marshal(document)
}

// programsIn is where slurm.dir has this version of the keeper's files.
func programsIn(dir string) string { return path.Join(dir, "keeper", "keeper-"+templates.KeeperHash()) }

// writePrograms puts the keeper's files there, unless they are: the directory appears whole or not at all.
func (l *Launcher) writePrograms(ctx context.Context, dir string) error {
	f := l.site.files
	if kind, err := f.Kind(ctx, dir); err != nil || kind == "directory" {
		return err
	}
	scratch := dir + "-" + rand.Text()
	programs := templates.KeeperFiles()
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		if err := f.WriteBytes(ctx, path.Join(scratch, name), programs[name]); err != nil {
			return err
		}
	}
	err := f.Call(ctx, "rename", map[string]any{"path": scratch, "to": dir}, nil)
	if err == nil {
		return nil
	}
	if kind, kindErr := f.Kind(ctx, dir); kindErr == nil && kind == "directory" { // somebody else was faster
		return f.Remove(ctx, scratch)
	}
	return err
}
