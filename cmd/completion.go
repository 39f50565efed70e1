package cmd

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
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
