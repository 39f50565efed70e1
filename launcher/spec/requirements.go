package spec

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
)

// Requirements are what pip or uv installs: a list, or the name of a requirements file of the client, which ReadFiles replaces by its lines.
type Requirements struct {
	// File is the requirements file; it is not read yet if this is not empty.
	File string
	// Packages are the lines, as pip's requirements files have them.
	Packages []string
}

var requirementsType = reflect.TypeFor[Requirements]()

// IsZero says whether nothing is given; encoding/json leaves it out then.
func (r Requirements) IsZero() bool { return r.File == "" && len(r.Packages) == 0 }

// MarshalJSON writes it as the cluster file has it: the file's name, or the list.
func (r Requirements) MarshalJSON() ([]byte, error) {
	if r.File != "" {
		return json.Marshal(r.File)
	}
	return json.Marshal(r.Packages)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Requirements) UnmarshalJSON(b []byte) error {
	*r = Requirements{}
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &r.File)
	}
	return json.Unmarshal(b, &r.Packages)
}

// requirements takes a list, or a text as the name of a file.
func (d *decoder) requirements(n *node, v reflect.Value, path, pathTag string) {
	r := Requirements{}
	switch {
	case n.kind == listKind:
		d.slice(n, reflect.ValueOf(&r.Packages).Elem(), path, "")
	case n.kind == scalarKind && n.tag == "!!str" && n.text != "":
		r.File = resolvePath(n.text, n.origin.Dir, pathTag)
	default:
		d.fail(n, path, "write it as [A, B], or as requirements.txt", "must be a list, or the name of a requirements file, not %s", n.describe())
	}
	v.Set(reflect.ValueOf(r))
}

// ClientFile is a value of Ray's runtime_env that is the name of a file, which Ray's SDK reads where it is called
// (ray/_private/runtime_env/validation.py of Ray 2.60), as the cluster does not have it.
type ClientFile struct {
	// Key is conda, pip, pip.packages or uv.
	Key string
	// File is the name as given.
	File string
	// Set replaces the value.
	Set func(any)
}

// ClientFiles lists the files that a runtime_env names, in the order of their keys. Another text of conda is the name, or the directory on the nodes, of
// an environment that is there.
func ClientFiles(env map[string]any) (files []ClientFile) {
	add := func(key string, in map[string]any, name string) {
		if file, ok := in[name].(string); ok && (name != "conda" || isYAML(file)) {
			files = append(files, ClientFile{key, file, func(v any) { in[name] = v }})
		}
	}
	add("conda", env, "conda")
	add("pip", env, "pip")
	if pip, ok := env["pip"].(map[string]any); ok {
		add("pip.packages", pip, "packages")
	}
	add("uv", env, "uv")
	return files
}

func isYAML(file string) bool { return filepath.Ext(file) == ".yaml" || filepath.Ext(file) == ".yml" }

// resolveClientFiles makes the names of files in a runtime_env absolute; n is what env was made of.
func resolveClientFiles(n *node, env Object) {
	for _, f := range ClientFiles(env) {
		value := n
		for key := range strings.SplitSeq(f.Key, ".") {
			value = value.get(key)
		}
		f.Set(resolvePath(f.File, value.origin.Dir, "client"))
	}
}

var fileOption = regexp.MustCompile(`^\s*(-r|-c|--requirement\b|--constraint\b)\s*=?\s*(.*?)\s*(?:\s#.*)?$`)

// includedFile finds the file that a line of a requirements file takes in by a relative path (-r, -c and their long forms); "" if there is none. An absolute
// path, a URL and a path with a variable, such as Ray's ${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}, are of the nodes.
func includedFile(line string) (option, file string) {
	m := fileOption.FindStringSubmatch(line)
	if m == nil {
		return "", ""
	}
	file = strings.Trim(m[2], `"'`)
	if file == "" || filepath.IsAbs(file) || IsURI(file) || strings.HasPrefix(file, "file:") || strings.Contains(file, "$") {
		return "", ""
	}
	return m[1], file
}
