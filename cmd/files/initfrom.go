package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/files/translate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// runInitFrom writes the cluster file of a batch script, a manifest or a command line.
func runInitFrom(a *app.App, o *initOptions) error {
	const name = "rayctl.yaml"
	if err := o.taken(name); err != nil {
		return err
	}
	source, data, err := sourceOf(a, o.from)
	if err != nil {
		return err
	}
	made, err := translate.Of(translate.Source{Name: source, Command: "rayctl init --from " + shellescape.Quote(o.from), Data: data, Elsewhere: filepath.Clean(o.dir) != "."})
	if err != nil {
		return err
	}
	if err := o.write(a, name, made.Content); err != nil {
		return err
	}
	for _, text := range made.Left {
		a.UI.Note("not translated: %s", text)
	}
	for _, text := range made.Check {
		a.UI.Note("to check: %s", text)
	}
	command := "rayctl up"
	if made.Job {
		command = "rayctl run"
	}
	path := filepath.Join(o.dir, name)
	if filepath.Clean(o.dir) != "." { // from here, as the paths of the job are relative to where its script was submitted
		command += " -f " + shellescape.Quote(path)
	}
	a.Next("read "+path+", `rayctl validate -f "+shellescape.Quote(path)+"`", "`"+command+"`")
	return nil
}

// sourceOf reads what --from names, and of a file that is too large only as much as shows that.
func sourceOf(a *app.App, name string) (source string, data []byte, err error) {
	if name == "" {
		return "", nil, app.UsageError("name a batch script, a RayJob, or a file with a ray job submit line", "--from is empty")
	}
	source, from := "standard input", a.In
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", nil, notRead(name, err)
		}
		defer file.Close()
		source, from = name, file
	}
	data, err = io.ReadAll(io.LimitReader(from, spec.MaxFileBytes+1))
	if err != nil {
		return "", nil, notRead(source, err)
	}
	return source, data, nil
}

func notRead(name string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return &spec.Error{File: name, Msg: "cannot be read: " + err.Error(), Hint: "name a batch script, a RayJob, or a file with a ray job submit line"}
}
