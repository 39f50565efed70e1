// Package dump makes the archive of `rayctl debug-dump`: texts about one cluster with bounds, under names of rayctl's own, without secrets.
package dump

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Limits of an archive, before compression. Of one text the end is kept.
const (
	totalLimit = 50 << 20
	filesLimit = 2000
)

// ProblemsFile has a line for each part of the archive that could not be read.
const ProblemsFile = "problems.txt"

// Archive is what was found of one cluster. It implements launcher.Evidence.
type Archive struct {
	usersOutput bool
	files       []File
	names       map[string]bool
	total       int64
	leftOut     int
	problems    []string
	secrets     secrets
}

// File is one text of an archive.
type File struct {
	Name string
	Text []byte
}

// New makes an empty archive. usersOutput: the output of the user's programs is wanted.
func New(usersOutput bool) *Archive {
	return &Archive{usersOutput: usersOutput, names: map[string]bool{}}
}

// UsersOutput is that of New.
func (a *Archive) UsersOutput() bool { return a.usersOutput }

// Add keeps the end of a text, from a line's beginning on: a secret that the cut has divided is not found. Documents are searched for secrets by their names.
func (a *Archive) Add(name string, text []byte, size int64) bool {
	if a.total >= totalLimit || len(a.files) >= filesLimit {
		a.leftOut++
		return a.leftOut < filesLimit
	}
	if size == int64(len(text)) {
		text = a.secrets.document(text)
		size = int64(len(text))
	}
	if len(text) > launcher.EvidenceLimit || size > int64(len(text)) {
		text = text[max(0, len(text)-launcher.EvidenceLimit):]
		line := bytes.IndexAny(text, "\r\n")
		if line < 0 { // a part of one line
			line = len(text) - 1
		}
		text = text[line+1:]
		text = append(fmt.Appendf(nil, "[debug-dump kept the last %d of %d bytes]\n", len(text), size), text...)
	}
	a.total += int64(len(text))
	a.files = append(a.files, File{name, text})
	return true
}

// Missing notes why what cannot be had, as a line of ProblemsFile. No error, and one that says that it does not exist (fs.ErrNotExist), are no problem.
func (a *Archive) Missing(what string, err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return
	}
	a.problems = append(a.problems, what+": "+strings.Join(strings.Fields(err.Error()), " "))
}

// Secret takes values that no text may have.
func (a *Archive) Secret(values ...string) {
	for _, value := range values {
		a.secrets.add(value, leastSecret)
	}
}

// Spec adds the cluster file.
func (a *Archive) Spec(s *spec.ClusterSpec) {
	text, err := json.Marshal(s)
	if err != nil {
		a.Missing("cluster-file.yaml", err)
		return
	}
	for _, secret := range s.Secrets {
		a.secrets.name(secret.Name)
		values, err := config.ReadSecrets(&spec.ClusterSpec{Secrets: []spec.Secret{secret}}, os.Getenv)
		if err != nil {
			a.problems = append(a.problems, "this machine does not have the value of the secret "+secret.Name+", which is removed only if the cluster lives, or where its name stands before it")
		}
		a.Secret(slices.Collect(maps.Values(values))...)
	}
	if text, err = yaml.JSONToYAML(a.secrets.document(text)); err != nil {
		a.Missing("cluster-file.yaml", err)
		return
	}
	a.Add("cluster-file.yaml", text, int64(len(text)))
}

// Environment takes the variables of this process that have the name of a secret.
func (a *Archive) Environment(variables []string) {
	for _, variable := range variables {
		if name, value, _ := strings.Cut(variable, "="); a.secrets.named(name) {
			a.secrets.add(value, leastNamed)
		}
	}
}

// Empty reports whether nothing was found.
func (a *Archive) Empty() bool { return len(a.files) == 0 }

// Problems is the number of parts that could not be read.
func (a *Archive) Problems() int { return len(a.problems) }

// Finish removes the secrets from all texts and names, and returns the files. The archive has no use after it.
func (a *Archive) Finish() []File {
	if a.leftOut > 0 {
		a.problems = append(a.problems, fmt.Sprintf("further texts: left out, as the archive has %d MiB or %d texts", a.total>>20, len(a.files)))
	}
	if len(a.problems) > 0 {
		text := []byte(strings.Join(a.problems, "\n") + "\n")
		a.files = append(a.files, File{Name: ProblemsFile, Text: text})
	}
	r := a.secrets.remover()
	for i := range a.files {
		f := &a.files[i]
		f.Text = r.remove(f.Text)
		f.Name = a.unused(safe(string(r.remove([]byte(f.Name)))))
	}
	return a.files
}

// strange is what no name in an archive has.
var strange = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

const longestName = 100

// safe is a path without characters that a terminal, a shell or a program that unpacks archives could take for more than a name.
func safe(name string) string {
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		part = strings.TrimLeft(strange.ReplaceAllString(part, "_"), ".-")
		parts = append(parts, part[:min(len(part), longestName)])
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "/")
}

// unused is the name, or one like it that no file has, also where a file system does not distinguish case.
func (a *Archive) unused(name string) string {
	try := name
	for n := 2; try == "" || a.names[strings.ToLower(try)]; n++ {
		ext := path.Ext(name)
		try = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), n, ext)
	}
	a.names[strings.ToLower(try)] = true
	return try
}

// Write writes the files as a compressed tar archive, all in one directory.
func Write(w io.Writer, top string, files []File, at time.Time) error {
	packed := gzip.NewWriter(w)
	out := tar.NewWriter(packed)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(top, f.Name), Mode: 0o600, Size: int64(len(f.Text)), ModTime: at}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		if _, err := out.Write(f.Text); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), packed.Close())
}
