package cmd

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher/spec/schema"
)

// addCompletion adds cobra's command `completion`, whose script for bash also works without the package bash-completion: minimal images and many
// login nodes do not have it.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	bash, _, err := root.Find([]string{"completion", "bash"})
	if err != nil {
		panic("completion: " + err.Error())
	}
	bash.Long = "Print the completion script for bash. The package bash-completion is used if it is there, and not needed.\n\n" +
		"In this shell:\n\n  source <(rayctl completion bash)\n\nIn every new one:\n\n  echo 'source <(rayctl completion bash)' >> ~/.bashrc"
	bash.RunE = func(c *cobra.Command, _ []string) error {
		plain, err := c.Flags().GetBool("no-descriptions")
		if err != nil {
			return err
		}
		script, err := bashCompletion(root, !plain)
		if err != nil {
			return err
		}
		_, err = io.WriteString(root.OutOrStdout(), script)
		return err
	}
}

// addKeyCompletion completes keys of the cluster file: those of --set, and the arguments of help, also subjects.
func addKeyCompletion(root *cobra.Command) {
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		if c.Flags().Lookup("set") != nil && c.Name() != "init" { // which completes parameters
			app.Complete(c, "set", func(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return keysFrom(word, "="), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
			})
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(root)
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic("help: " + err.Error())
	}
	commands := help.ValidArgsFunction
	help.ValidArgsFunction = func(c *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		found, directive := commands(c, args, word)
		if len(args) > 0 {
			return found, directive
		}
		for _, subject := range strings.Split(subjects, ", ") {
			if strings.HasPrefix(subject, word) {
				found = append(found, subject)
			}
		}
		if word != "" {
			found = append(found, keysFrom(word, "")...)
		}
		if strings.Contains(word, ".") || len(found) == 1 && strings.HasSuffix(found[0], ".") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return found, directive
	}
}

// keysFrom are the keys of the cluster file that begin with a word, up to their next dot; behind a whole key stands end, with what the key means. Keys of worker
// groups and of other lists have a name of the user in them, and are left out.
func keysFrom(word, end string) (found []cobra.Completion) {
	seen := map[string]bool{}
	for _, section := range schema.Reference() {
		for _, f := range section.Fields {
			rest, ok := strings.CutPrefix(f.Path, word)
			if !ok || strings.ContainsAny(f.Path, "[") || strings.Contains(f.Path, ".NAME") {
				continue
			}
			next, _, more := strings.Cut(rest, ".")
			switch {
			case more && !seen[word+next]:
				found = append(found, word+next+".")
			case !more && hasKeys(f.Path):
				continue // its keys follow
			case !more:
				meaning, _, _ := strings.Cut(f.Text, ". ")
				found = append(found, cobra.CompletionWithDesc(f.Path+end, meaning))
			}
			seen[word+next] = true
		}
	}
	return found
}

// hasKeys reports whether the reference has a section of the keys below a key.
func hasKeys(path string) bool {
	return slices.ContainsFunc(schema.Reference(), func(s schema.Section) bool { return s.Path == path })
}

// bashCompletion is cobra's script with what it takes from bash-completion replaced where that is not loaded.
func bashCompletion(root *cobra.Command, descriptions bool) (string, error) {
	var b bytes.Buffer
	if err := root.GenBashCompletionV2(&b, descriptions); err != nil {
		return "", err
	}
	script := b.String()
	const words = `    _get_comp_words_by_ref "$@" cur prev words cword` + "\n"
	if strings.Count(script, words) != 1 || !strings.Contains(script, "_filedir") {
		return "", fmt.Errorf("cobra's completion script has changed: see cmd/completion.go")
	}
	script = strings.ReplaceAll(script, "_filedir", "__rayctl_filedir")
	return strings.Replace(script, words, "    __rayctl_words \"$@\"\n", 1) + withoutPackage, nil
}

// withoutPackage has the functions of bash-completion that cobra's script needs. Bash splits words at = and : and completes only the part after
// them; cobra's script needs whole words, and cuts its answers itself.
const withoutPackage = `
__rayctl_words()
{
    if declare -F _get_comp_words_by_ref > /dev/null; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    local line="${COMP_LINE:0:COMP_POINT}"
    read -ra words <<< "$line"
    if [[ -z $line || $line == *[[:space:]] ]]; then
        words+=("")
    fi
    cword=$((${#words[@]} - 1))
    cur=${words[cword]} prev=${words[cword > 0 ? cword - 1 : 0]}
}

__rayctl_filedir()
{
    if declare -F _filedir > /dev/null; then
        _filedir "$@"
        return
    fi
    local IFS=$'\n'
    if [[ $(type -t compopt) == builtin ]]; then
        compopt -o filenames 2> /dev/null
    fi
    case "${1:-}" in
        -d) COMPREPLY+=($(compgen -d -- "$cur")) ;;
        "") COMPREPLY+=($(compgen -f -- "$cur")) ;;
        *) COMPREPLY+=($(compgen -d -- "$cur") $(shopt -s extglob; compgen -f -X "!*.@($1)" -- "$cur")) ;;
    esac
}
`
