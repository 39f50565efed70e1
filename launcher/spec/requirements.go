package spec

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Requirements are the packages for pip or uv: a list, or the name of a requirements file of the client, which clientfiles.ReadJob replaces by its lines.
type Requirements struct {
	// File is the requirements file; if it is not empty the file is not read yet.
	File string
	// Packages are the lines, as pip's requirements files have them, behind those of File.
	Packages []string
	// Dir is the directory of this machine that local paths in the lines are relative to; "": the current one. It is not part of the cluster file.
	Dir string
}

var requirementsType = reflect.TypeFor[Requirements]()

// IsZero reports whether nothing is given; encoding/json then leaves the field out.
func (r Requirements) IsZero() bool { return r.File == "" && len(r.Packages) == 0 }

// MarshalJSON writes the form of the cluster file: the file's name, or the list.
func (r Requirements) MarshalJSON() ([]byte, error) {
	switch {
	case r.File != "" && len(r.Packages) > 0: // not a form of the file: only flags make it
		return json.Marshal(append([]string{"-r " + r.File}, r.Packages...))
	case r.File != "":
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

// requirements decodes a list, or a text as the name of a file.
func (d *decoder) requirements(n *node, v reflect.Value, path, pathTag string) {
	r := Requirements{Dir: n.origin.Dir}
	switch {
	case n.kind == listKind:
		packages := *n
		if n.text != "" { // its first item, see Append
			r.File, packages.items = resolvePath(n.text, n.origin.Dir, pathTag), n.items[1:]
		}
		d.slice(&packages, reflect.ValueOf(&r.Packages).Elem(), path, "")
	case n.kind == scalarKind && n.tag == "!!str" && n.text != "":
		r.File = resolvePath(n.text, n.origin.Dir, pathTag)
	default:
		d.fail(n, path, "write it as [A, B], or as requirements.txt", "must be a list, or the name of a requirements file, not %s", n.describe())
	}
	v.Set(reflect.ValueOf(r))
}

// ClientFile is a file name in Ray's runtime_env. Ray's SDK reads the file on the calling machine
// (ray/_private/runtime_env/validation.py of Ray 2.60), because the cluster does not have it.
type ClientFile struct {
	// Key is conda, pip, pip.packages or uv.
	Key string
	// File is the name as given.
	File string
	// Set replaces the value.
	Set func(any)
}

// ClientFiles lists the files named in a runtime_env, in the order of their keys. Any other text of conda is the name or the directory of an environment
// that exists on the nodes.
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

// resolveClientFiles makes the names of files in a runtime_env absolute; n is the node of env.
func resolveClientFiles(n *node, env Object) {
	for _, f := range ClientFiles(env) {
		value := n
		for key := range strings.SplitSeq(f.Key, ".") {
			value = value.get(key)
		}
		f.Set(resolvePath(f.File, value.origin.Dir, "client"))
	}
}

// MergeRuntimeEnv merges a runtime_env of Ray over the document's job: its keys go to those of Job that stand for them. Requirements of either kind replace
// those of both, as Ray takes one.
func (d *Document) MergeRuntimeEnv(env *Document) {
	job := &node{kind: objectKind, origin: env.root.origin}
	rest := &node{kind: objectKind, origin: env.root.origin}
	packages := false
	for _, e := range env.root.entries {
		field := strings.TrimPrefix(runtimeEnvFields[e.key], "job.")
		isPackages := e.key == "pip" || e.key == "uv"
		packages = packages || isPackages
		if field == "" || isPackages && e.value.kind == objectKind { // {packages: [...], pip_check: false} has no field
			rest.put(e.key, e.origin, e.value)
			continue
		}
		job.put(field, e.origin, e.value)
	}
	if len(rest.entries) > 0 {
		job.put("runtimeEnv", env.root.origin, rest)
	}
	if packages {
		d.dropRequirements()
	}
	over := &node{kind: objectKind}
	over.put("job", env.root.origin, job)
	d.Merge(&Document{root: over})
}

// dropRequirements removes what the job has of pip and uv. Nodes may be shared with other documents, so that they are replaced, not changed.
func (d *Document) dropRequirements() {
	without := func(n *node) *node {
		c := *n
		c.remove("pip")
		c.remove("uv")
		return &c
	}
	job := d.root.get("job")
	if job == nil || job.kind != objectKind {
		return
	}
	job = without(job)
	if env := job.get("runtimeEnv"); env != nil && env.kind == objectKind {
		job.entries = slices.Clone(job.entries)
		job.put("runtimeEnv", env.origin, without(env))
	}
	root := *d.root
	root.entries = slices.Clone(root.entries)
	root.put("job", job.origin, job)
	d.root = &root
}

var fileOption = regexp.MustCompile(`^\s*(-r|-c|--requirement\b|--constraint\b)\s*=?\s*(.*?)\s*(?:\s#.*)?$`)

// IncludedFile finds the file that a line of a requirements file includes by a relative path (-r, -c and their long forms); "" if there is none. Absolute
// paths, URLs and paths with a variable, such as Ray's ${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}, refer to the nodes.
func IncludedFile(line string) (option, file string) {
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
