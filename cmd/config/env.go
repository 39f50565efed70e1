package config

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/launcher/spec"
)

// setEnvFile takes variables from a file as parseEnvFile reads it.
func (l *loader) setEnvFile(name string, o spec.Origin) error {
	data, err := os.ReadFile(l.abs(name))
	if err != nil {
		return flagError(o, "give a file of lines NAME=VALUE", "%s cannot be read: %s", name, cause(err))
	}
	vars, fault := parseEnvFile(string(data))
	switch {
	case fault != nil && fault.line > 0:
		return flagError(o, fault.hint, "line %d of %s %s", fault.line, name, fault.msg)
	case fault != nil:
		return flagError(o, fault.hint, "%s %s", name, fault.msg)
	}
	var secrets []string
	for _, v := range vars {
		if NamesSecret(v.name) && !slices.Contains(secrets, v.name) {
			secrets = append(secrets, v.name)
		}
		if err := l.doc.Set("job.env."+v.name, v.value, spec.Origin{Source: name, Line: v.line, Dir: o.Dir}); err != nil {
			return err
		}
	}
	if len(secrets) > 0 {
		l.warnSecrets(o.Source, strings.Join(secrets, ", "))
	}
	return nil
}

func (l *loader) setEnv(text string, o spec.Origin) error {
	name, value, given := strings.Cut(text, "=")
	if !given {
		if value, given = os.LookupEnv(name); !given {
			return flagError(o, "write "+name+"=VALUE, or export it", "the variable %q is not in your environment", name)
		}
	}
	if name == "" {
		return flagError(o, "write NAME=VALUE", "%q has no name", text)
	}
	if NamesSecret(name) {
		l.warnSecrets("--env", name)
	}
	return l.doc.Set("job.env."+name, value, o)
}

func (l *loader) warnSecrets(flag, names string) {
	l.out.Warnings = append(l.out.Warnings, fmt.Sprintf("%s %s: Ray shows the environment of a job, and records keep it; `secrets: [%s]` in the cluster file gives it to the cluster without that", flag, names, names))
}

// NamesSecret reports whether a variable has the name of a secret, such as HF_TOKEN or AWS_SECRET_ACCESS_KEY, but not TOKENIZERS_PARALLELISM.
func NamesSecret(name string) bool {
	words := strings.Split(strings.ToUpper(name), "_")
	anywhere := func(word string) bool { return slices.Contains([]string{"SECRET", "PASSWORD", "PASSWD"}, word) }
	return slices.ContainsFunc(words, anywhere) || slices.Contains([]string{"KEY", "APIKEY", "TOKEN", "PASS"}, words[len(words)-1])
}
