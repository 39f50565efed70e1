package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rayctl/rayctl/launcher/spec"
)

// runtimeEnv is Ray's runtime_env, which a RayJob has as YAML text.
type runtimeEnv struct {
	*Manifest
	text string
	at   *yaml.Node // the text in the file; nil: not found
	keys map[string]any
}

var runtimeEnvPath = []any{"spec", "runtimeEnvYAML"}

// readRuntimeEnv takes its keys, those for which the cluster file has keys of its own as these. A working directory in it is a URI, or one that the image has.
func (m *Manifest) readRuntimeEnv(document int, text string) error {
	r := runtimeEnv{Manifest: m, text: text, at: nodeAt(m.data, document, runtimeEnvPath)}
	for _, step := range []func() error{r.parse, r.checkKinds, r.setWorkingDir, r.setModules, r.refuseFiles, r.setEnv, r.setLists} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (r *runtimeEnv) parse() error {
	value, err := spec.PlainYAML(r.text) // for which N and yes are texts, as for Ray; sigs.k8s.io/yaml makes a key N false
	if err != nil {
		out, ok := errors.AsType[*spec.Error](err)
		if !ok {
			out = &spec.Error{Msg: err.Error()}
		}
		return &spec.Error{File: r.File, Line: r.line(out.Line), Path: shown(runtimeEnvPath), Msg: out.Msg, Hint: out.Hint}
	}
	keys, ok := value.(map[string]any)
	if !ok && value != nil {
		return r.wrong(nil, "it is Ray's runtime_env as YAML text", "must be a map of keys, not %s", kindOf(value))
	}
	r.keys = keys
	return nil
}

// line is that of the file where the text has the line n; 0 if it is not known. Of the styles of YAML only | has the lines of the text.
func (r *runtimeEnv) line(n int) int {
	switch {
	case r.at == nil:
		return 0
	case r.at.Style&yaml.LiteralStyle != 0:
		return r.at.Line + n
	}
	return r.at.Line
}

// wrong is an error at a key of the runtime_env.
func (r *runtimeEnv) wrong(at []any, hint, format string, args ...any) error {
	name := shown(runtimeEnvPath)
	if len(at) > 0 {
		name += ": " + shown(at)
	}
	return &spec.Error{File: r.File, Line: r.line(lineOf([]byte(r.text), 0, at)), Path: name, Msg: fmt.Sprintf(format, args...), Hint: hint}
}

// checkKinds refuses values of another kind than Ray takes.
func (r *runtimeEnv) checkKinds() error {
	for _, key := range slices.Sorted(maps.Keys(r.keys)) {
		value := r.keys[key]
		if value == nil { // as if it were not there, also for Ray
			delete(r.keys, key)
			continue
		}
		switch key {
		case "working_dir":
			if err := r.wantText([]any{key}, value); err != nil {
				return err
			}
		case "py_modules", "excludes":
			if err := r.wantList([]any{key}, value); err != nil {
				return err
			}
		case "env_vars":
			if err := r.wantTexts(key, value); err != nil {
				return err
			}
		case "pip", "uv":
			if err := r.wantPackages(key, value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *runtimeEnv) wantText(at []any, value any) error {
	switch value.(type) {
	case string:
		return nil
	case nil:
		return r.wrong(at, `write "" for an empty one`, "must be a text, and has no value")
	case map[string]any, []any:
		return r.wrong(at, "", "must be a text, not %s", kindOf(value))
	}
	return r.wrong(at, "write it in quotes", "must be a text, not %s", kindOf(value))
}

func (r *runtimeEnv) wantList(at []any, value any) error {
	list, ok := value.([]any)
	if !ok {
		return r.wrong(at, "", "must be a list of texts, not %s", kindOf(value))
	}
	for i, item := range list {
		if err := r.wantText(append(slices.Clone(at), i), item); err != nil {
			return err
		}
	}
	return nil
}

func (r *runtimeEnv) wantTexts(key string, value any) error {
	texts, ok := value.(map[string]any)
	if !ok {
		return r.wrong([]any{key}, "write NAME: value for each variable, numbers and true in quotes", "must be a map of texts, not %s", kindOf(value))
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if err := r.wantText([]any{key, name}, texts[name]); err != nil {
			return err
		}
	}
	return nil
}

// wantPackages takes a list, the name of a file, which is refused elsewhere, or a map with the list.
func (r *runtimeEnv) wantPackages(key string, value any) error {
	switch v := value.(type) {
	case string:
		return nil
	case map[string]any:
		if packages, named := v["packages"].(string); named && packages != "" {
			return nil
		}
		return r.wantList([]any{key, "packages"}, v["packages"])
	}
	return r.wantList([]any{key}, value)
}

// kindOf is what messages call a value.
func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "nothing"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "a map of keys"
	}
	return "a number"
}

func (r *runtimeEnv) setWorkingDir() error {
	dir, _ := r.keys["working_dir"].(string)
	delete(r.keys, "working_dir")
	switch {
	case dir == "":
	case spec.IsURI(dir):
		r.set("job.workingDir", dir)
	case path.IsAbs(dir):
		r.set("job.cwd", dir)
	default:
		return r.wrong([]any{"working_dir"}, "give a URI or an absolute path of the image there, and directories of this machine with --working-dir",
			"%q is a relative path, and there is no directory that it is relative to", dir)
	}
	return nil
}

// setModules refuses modules of the machine on which the file was written.
func (r *runtimeEnv) setModules() error {
	modules, _ := r.keys["py_modules"].([]any)
	for i, module := range modules {
		if name, _ := module.(string); !spec.IsURI(name) {
			return r.wrong([]any{"py_modules", i}, "give a URI, or job.pyModules with --set", "%s is a path of another machine", name)
		}
	}
	return nil
}

func (r *runtimeEnv) refuseFiles() error {
	if files := spec.ClientFiles(r.keys); len(files) > 0 {
		var at []any
		for key := range strings.SplitSeq(files[0].Key, ".") {
			at = append(at, key)
		}
		return r.wrong(at, "write the content of the file there", "is the file %s, which is of another machine", files[0].File)
	}
	return nil
}

func (r *runtimeEnv) setEnv() error {
	env := map[string]string{}
	vars, _ := r.keys["env_vars"].(map[string]any)
	delete(r.keys, "env_vars")
	for name, value := range vars {
		env[name], _ = value.(string)
	}
	r.setAll("job.env", env)
	return nil
}

// setLists sets what is not text. pip and uv may be lists, which have keys of their own, or objects.
func (r *runtimeEnv) setLists() error {
	for _, list := range []struct{ of, key string }{{"py_modules", "job.pyModules"}, {"excludes", "job.excludes"}, {"pip", "job.pip"}, {"uv", "job.uv"}} {
		values, ok := r.keys[list.of].([]any)
		if !ok {
			continue
		}
		delete(r.keys, list.of)
		if err := r.setJSON(list.key, values, len(values) == 0 && list.of != "pip" && list.of != "uv"); err != nil {
			return err
		}
	}
	return r.setJSON("job.runtimeEnv", r.keys, len(r.keys) == 0)
}

func (r *runtimeEnv) setJSON(key string, value any, empty bool) error {
	if empty {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return r.wrong(nil, "", "cannot be read: %v", err)
	}
	r.set(key, string(text))
	return nil
}
