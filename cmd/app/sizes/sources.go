package sizes

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rayctl/rayctl/launcher/spec"
)

// maxContent bounds what is read of a file.
const maxContent = 1 << 20

// source is where a job's command has options: a text of a shell, or a configuration.
type source struct {
	name   string // of the file; "" for the command line
	text   string
	config map[string]any
}

// serveConfig is what `rayctl serve apply` takes where it is not given another file.
const serveConfig = "serve.yaml"

// sources are the job's command, the scripts beside the cluster file that it names, and the files of YAML that one of them names. Without a command it is Serve's config.
func sources(j *spec.Job) []source {
	if j.Entrypoint == "" {
		return withConfigs(source{text: serveConfig}, j.WorkingDir)
	}
	all := withConfigs(source{text: j.Entrypoint}, j.WorkingDir)
	for _, word := range strings.Fields(j.Entrypoint) {
		word = strings.Trim(word, `'"`)
		if strings.HasSuffix(word, ".sh") || strings.HasSuffix(word, ".bash") {
			all = append(all, withConfigs(source{name: word, text: content(j.WorkingDir, word)}, j.WorkingDir)...)
		}
	}
	return all
}

var (
	comment  = regexp.MustCompile(`(?m)(^|\s)#.*$`)
	yamlName = regexp.MustCompile(`(?:^|[\s'"=])([\w.-][\w./-]*\.ya?ml)\b`)
)

// withConfigs is a text of a shell, and the files of YAML that it names.
func withConfigs(shell source, dir string) []source {
	shell.text = comment.ReplaceAllString(shell.text, "")
	all := []source{shell}
	for _, m := range yamlName.FindAllStringSubmatch(shell.text, -1) {
		config := source{name: m[1]}
		if yaml.Unmarshal([]byte(content(dir, m[1])), &config.config) == nil { // else the framework reports it
			all = append(all, config)
		}
	}
	return all
}

// content is the text of a file in the working directory; "" if it cannot be read, which the upload reports.
func content(dir, name string) string {
	if dir == "" || !filepath.IsLocal(name) {
		return ""
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer func() { _ = root.Close() }()
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := root.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxContent))
	if err != nil {
		return ""
	}
	return string(text)
}

// values are what the source has for an option: of a shell's text the literal numbers, of a configuration the text at the dotted key.
func (s *source) values(option string) (found []string) {
	for _, m := range pattern(option).FindAllStringSubmatch(s.text, -1) {
		found = append(found, m[1])
	}
	if text := value(s.config, option); text != "" {
		found = append(found, text)
	}
	return found
}

// value is the text at a dotted key of a configuration, which passes over a list of one; "" if there is none.
func value(config any, key string) string {
	if list, is := config.([]any); is && len(list) == 1 {
		return value(list[0], key)
	}
	below, is := config.(map[string]any)
	first, rest, inside := strings.Cut(key, ".")
	switch {
	case !is || below[first] == nil:
		return ""
	case inside:
		return value(below[first], rest)
	}
	return fmt.Sprint(below[first])
}

// pattern finds an option with a literal number, after a space or a quote: NAME=8, or for a flag also NAME 8.
func pattern(option string) *regexp.Regexp {
	between := `=`
	if strings.HasPrefix(option, "--") {
		between = `[= ]\s*`
	}
	return regexp.MustCompile(`(?:^|[\s'"])[+]{0,2}` + regexp.QuoteMeta(option) + between + `['"]?(\d{1,9})(?:$|[\s'"\\;&|)])`)
}
