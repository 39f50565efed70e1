package rundir

import (
	"context"
	"encoding/json"
	"path"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// commitName is the file whose appearance is the commit; until then it has another name.
var commitName = path.Join(firstDir, keeper.CommitFile)

// Plan is the content of a run's files, which the launcher of a batch system decides.
type Plan interface {
	// Script is the batch script.
	Script() (string, error)
	// Companions are the batch scripts of the run's other jobs, by file name.
	Companions() (map[string]string, error)
	// Host is a script through which nodes start their programs; "" if there is none. Config.Host is its file name.
	Host() string
	// Orders are the keeper's orders.
	Orders() *keeper.Orders
}

// Stage writes all files but the commit.
func (r *Run) Stage(ctx context.Context, p launcher.Payload, plan Plan) error {
	f := r.Root.Files
	text, err := plan.Script()
	if err != nil {
		return err
	}
	if err := r.Root.writePrograms(ctx, r.Record.Programs); err != nil {
		return err
	}
	document, err := r.pack(ctx, p)
	if err != nil {
		return err
	}
	o := plan.Orders()
	if !spec.IsURI(o.OutputDir) {
		if err := f.Make(ctx, o.OutputDir, 0o755); err != nil {
			return launcher.Fail(runstate.CodeSpec, err, "choose another job.outputDir", "cannot make the output directory: %v", err)
		}
	}
	secrets := map[string]string{}
	for _, s := range r.Record.Spec.Secrets {
		secrets[s.Name] = p.Secrets[s.Name]
	}
	if len(secrets) > 0 {
		if err := f.WriteJSON(ctx, r.Path(firstDir, keeper.SecretsFile), secrets, false); err != nil {
			return err
		}
	}
	companions, err := plan.Companions()
	if err != nil {
		return err
	}
	for name, text := range companions {
		if err := f.WriteBytes(ctx, r.Path(name), []byte(text)); err != nil {
			return err
		}
	}
	if host := plan.Host(); host != "" {
		if err := f.WriteBytes(ctx, r.Path(r.Root.config.Host), []byte(host)); err != nil {
			return err
		}
	}
	for _, file := range []struct {
		name    string
		content []byte
	}{{r.Root.script, []byte(text)}, {path.Join(firstDir, keeper.TokenFile), []byte(keeper.NewToken())}, {commitName + ".staged", document}} {
		if err := f.WriteBytes(ctx, r.Path(file.name), file.content); err != nil {
			return err
		}
	}
	return f.WriteJSON(ctx, r.Path(firstDir, keeper.OrdersFile), o, false)
}

// pack calls the client's function that makes the packages, uploads them, and returns the commit document.
func (r *Run) pack(ctx context.Context, p launcher.Payload) ([]byte, error) {
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
			if err := r.Root.Files.Upload(ctx, file.Path, r.Path(firstDir, orders.PackageName(file.URI)), sent); err != nil {
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

// ProgramsIn is the path of the directory with this version of the keeper, below the root directory.
func ProgramsIn(dir string) string { return path.Join(dir, "keeper", keeperzip.Directory()) }

// writePrograms uploads the keeper's zip file unless it exists already. The file appears complete or not at all.
func (r *Root) writePrograms(ctx context.Context, dir string) error {
	f, file := r.Files, path.Join(dir, keeperzip.File)
	if kind, err := f.Kind(ctx, file); err != nil || kind == "file" {
		return err
	}
	return f.WriteBytes(ctx, file, keeperzip.Bytes())
}

// Program is the path of the zip file with this version of the keeper. A cluster that an older rayctl launched runs another one.
func (r *Root) Program(ctx context.Context) (string, error) {
	dir, _, err := r.Locate(ctx)
	if err != nil {
		return "", err
	}
	programs := ProgramsIn(dir)
	if err := r.writePrograms(ctx, programs); err != nil {
		return "", r.writeFailed(programs, err)
	}
	return path.Join(programs, keeperzip.File), nil
}
