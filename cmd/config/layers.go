package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/environ"
	"github.com/rayctl/rayctl/launcher/trust"
)

const stdinName = "-"

// DefaultProfile is the profile that applies where none is named.
const DefaultProfile = "default"

// fileNames are the names of a cluster file that is found, the first before the second.
var fileNames = []string{"rayctl.yaml", "rayctl.yml"}

// loader is the state shared by Merge's layers.
type loader struct {
	opts Options
	v    *viper.Viper
	dir  string
	out  *Loaded
	file *spec.Document // the cluster file
	doc  *spec.Document // all layers so far
}

func newLoader(opts Options) (*loader, error) {
	l := &loader{opts: opts, dir: opts.Dir, out: &Loaded{}, file: spec.NewDocument(), doc: spec.NewDocument()}
	if l.opts.Flags == nil {
		l.opts.Flags = pflag.NewFlagSet("", pflag.ContinueOnError)
	}
	if l.opts.Stdin == nil {
		l.opts.Stdin = os.Stdin
	}
	if l.dir == "" {
		wd, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("find the current directory: %w", err)
		}
		l.dir = wd
	}
	v, err := newViper(l.opts.Flags)
	if err != nil {
		return nil, err
	}
	l.v, l.out.dir = v, l.dir
	return l, nil
}

// readFile finds and parses the cluster file, or recognises a manifest.
func (l *loader) readFile() error {
	name, data, err := l.fileData()
	if err != nil || name == "" {
		return err
	}
	l.out.File = name
	if name != stdinName {
		l.out.dir = filepath.Dir(l.abs(name))
	}
	l.out.Files = append(l.out.Files, displayed(name))
	if l.out.Manifest, err = spec.ReadManifest(name, data); err != nil {
		return err
	}
	if l.out.Manifest != nil {
		return l.takeManifest(l.out.Manifest)
	}
	doc, err := l.parse(name, data)
	if script := program(name, data, err); script != nil {
		return script
	}
	if err != nil {
		return err
	}
	l.file = doc
	return nil
}

func displayed(name string) string {
	if name == stdinName {
		return "standard input"
	}
	return name
}

// takeManifest makes a cluster file from a file of another format.
func (l *loader) takeManifest(m *spec.Manifest) error {
	l.out.Warnings = append(l.out.Warnings, m.Notes...)
	for _, k := range m.Keys {
		if err := l.file.Set(k.Path, k.Value, spec.Origin{Source: m.File, Dir: l.dir}); err != nil {
			return err
		}
	}
	return nil
}

// parse uses the name that the user knows for messages, but resolves paths against the file's real folder.
func (l *loader) parse(name string, data []byte) (*spec.Document, error) {
	doc, err := spec.Parse(bytes.NewReader(data), name)
	if err != nil {
		return nil, err
	}
	dir := l.dir
	if name != stdinName {
		dir = filepath.Dir(l.abs(name))
	}
	doc.SetDir(dir)
	return doc, nil
}

// fileData reads the file of -f or RAYCTL_FILE, else the nearest that is found.
func (l *loader) fileData() (string, []byte, error) {
	name := l.v.GetString(keyFile)
	switch name {
	case stdinName:
		data, err := io.ReadAll(l.opts.Stdin)
		if err != nil {
			return "", nil, fmt.Errorf("read the cluster file from standard input: %w", err)
		}
		return stdinName, data, nil
	case "":
		found, ok := search(l.dir)
		if !ok {
			return "", nil, nil
		}
		name = l.short(found)
		if err := trusted(l.abs(name), "the cluster file", "-f "); err != nil {
			return "", nil, err
		}
		if other := filepath.Join(filepath.Dir(found), fileNames[1]); other != found && isFile(other) {
			l.out.Warnings = append(l.out.Warnings, fmt.Sprintf("%s is not read, because %s is there", l.short(other), name))
		}
	}
	data, err := os.ReadFile(l.abs(name))
	if err != nil {
		return "", nil, &spec.Error{File: name, Msg: "the cluster file cannot be read: " + cause(err), Hint: "give another one with -f, or make one with `rayctl init`"}
	}
	return name, data, nil
}

// trusted refuses a file that was found, not named, if another user could have written it: its content runs commands as this user, like git's
// configuration (safe.directory). Naming the file is consent. A missing file is fs.ErrNotExist, and must not be read afterwards.
func trusted(path, what, consent string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) { // there is nothing to trust, whoever can write there
		return err
	}
	err := trust.Check(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	reason, fix := trust.Explain(err)
	hint := fmt.Sprintf("name it with %s if you trust everybody who can write there", consent+shellescape.Quote(path))
	if fix != "" {
		hint = fix + ", else " + hint
	}
	return launcher.Fail(runstate.CodePermission, err, hint, "%s %s can run commands as you, and is not used without your consent, as %s", what, path, reason)
}

// search looks for a cluster file in dir and above, up to the root of the git work tree. Outside a work tree only dir counts: directories
// above it, such as /tmp, may belong to others.
func search(dir string) (string, bool) {
	root, inGit := gitRoot(dir)
	for {
		for _, name := range fileNames {
			if p := filepath.Join(dir, name); isFile(p) {
				return p, true
			}
		}
		parent := filepath.Dir(dir)
		if !inGit || dir == root || parent == dir {
			return "", false
		}
		dir = parent
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

func gitRoot(dir string) (string, bool) {
	for {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

// mergeFiles merges the default profile, the file and the chosen profile, in this order.
func (l *loader) mergeFiles() error {
	profiles, err := l.profiles()
	if err != nil {
		return err
	}
	if p := profiles.get(DefaultProfile); p != nil {
		l.dropDecided(p)
		l.doc.Merge(p)
		l.out.Profile = DefaultProfile
	}
	l.doc.Merge(l.file)
	chosen := l.v.GetString(keyProfile)
	if chosen == "" {
		return nil
	}
	p := profiles.get(chosen)
	if p == nil {
		return profiles.unknown(chosen, l.origin(keyProfile).Source)
	}
	l.doc.Merge(p)
	l.out.Profile = chosen
	return nil
}

// dropDecided leaves out of the default profile what a manifest decides itself.
func (l *loader) dropDecided(p *spec.Document) {
	for _, key := range p.Keys() {
		if !l.out.Manifest.Decides(key) {
			continue
		}
		p.Drop(key)
		l.out.Warnings = append(l.out.Warnings, fmt.Sprintf("%s of the profile default is not used: %s decides it itself", key, l.out.Manifest.File))
	}
}

// profiles collects the profiles of the user's configuration and of the cluster file; the file's win.
func (l *loader) profiles() (profileSet, error) {
	set := profileSet{}
	user, err := l.userConfig()
	if err != nil {
		return set, err
	}
	for _, d := range []*spec.Document{user, l.file} {
		if err := set.addFrom(d); err != nil {
			return set, err
		}
	}
	if keys := user.Keys(); len(keys) > 0 {
		return set, &spec.Error{File: l.userPath(), Msg: fmt.Sprintf("unknown key %q", keys[0]),
			Hint: "your configuration holds only profiles:; put it into profiles." + DefaultProfile}
	}
	return set, nil
}

// userConfig reads the user's own configuration. It may be missing unless RAYCTL_CONFIG names it.
func (l *loader) userConfig() (*spec.Document, error) {
	path := l.userPath()
	if path == "" {
		return spec.NewDocument(), nil
	}
	if l.v.GetString(keyConfig) == "" {
		switch err := trusted(l.abs(path), "your configuration", environ.Config+"="); {
		case errors.Is(err, fs.ErrNotExist):
			return spec.NewDocument(), nil
		case err != nil:
			return nil, err
		}
	}
	data, err := os.ReadFile(l.abs(path))
	if err != nil {
		return nil, &spec.Error{File: path, Msg: "your configuration cannot be read: " + cause(err), Hint: "make it readable, or name another one with " + environ.Config + "=FILE"}
	}
	l.out.Files = append(l.out.Files, path)
	return l.parse(path, data)
}

// userPath is RAYCTL_CONFIG, else rayctl/config.yaml below XDG_CONFIG_HOME or ~/.config, on macOS too.
func (l *loader) userPath() string {
	if p := l.v.GetString(keyConfig); p != "" {
		return p
	}
	base := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "rayctl", "config.yaml")
}

// cause is the system's error without the path, which the message already has.
func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

func (l *loader) abs(p string) string {
	if p = spec.ExpandHome(p); filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(l.dir, p)
}

// short makes a file name relative to the current directory if that is shorter.
func (l *loader) short(p string) string {
	if rel, err := filepath.Rel(l.dir, p); err == nil && len(rel) < len(p) && !strings.HasPrefix(rel, "../../..") {
		return rel
	}
	return p
}
