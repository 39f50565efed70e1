package main

import (
	"bytes"
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/environ"
	"github.com/rayctl/rayctl/launcher/spec/schema"
)

//go:embed cluster-file.md.tmpl
var clusterFileTemplate string

// clusterFile is the reference of the cluster file.
func clusterFile(string) ([]byte, error) {
	t, err := template.New("cluster-file").Funcs(template.FuncMap{
		"cell": cell, "flag": config.FlagOf, "heading": heading,
	}).Parse(clusterFileTemplate)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, map[string]any{
		"Sections": schema.Reference(), "OptionsOfRay": spec.OptionsOfRay(), "DriverEnv": environ.Driver(), "ClientEnv": slices.Concat(environ.Client(), environ.OfRay()),
	})
	return b.Bytes(), err
}

// codeWords are keys, variables and options in running text, which read better as code.
var codeWords = regexp.MustCompile(`\b(RAYCTL?_[A-Z_]+|SLURM_JWT|KUBECONFIG|TMPDIR|SIGTERM|SIGKILL)\b`)

// cell makes text safe in a table's cell.
func cell(s string) string {
	s = strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`).Replace(s)
	return codeWords.ReplaceAllString(s, "`$1`")
}

func heading(path string) string {
	if path == "" {
		return "The file"
	}
	return "`" + path + "`"
}
