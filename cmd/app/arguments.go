package app

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/launcher/spec"
)

// UnknownCommand suggests the nearest command.
func UnknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "`" + c.CommandPath() + " --help` lists the commands"
	if near := NearCommand(c, args[0]); near != "" {
		hint = "did you mean `" + c.CommandPath() + " " + near + "`?"
	}
	return UsageError(hint, "there is no command `%s %s`", c.CommandPath(), args[0])
}

// NearCommand is the command below c that a mistyped word means, or of which it is the beginning; "" if there is none.
func NearCommand(c *cobra.Command, word string) string {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	c.SuggestionsMinimumDistance = 1
	return cmp.Or(spec.Nearest(word, names), First(c.SuggestionsFor(word)))
}

// Repository is where the documents are.
const Repository = "https://github.com/rayctl/rayctl"

// ciTemplates are what people call the templates of `init` for CI systems; "": which system is not said.
var ciTemplates = map[string]string{"ci": "", "github": "github", "github-actions": "github", "actions": "github", "workflow": "github", "gitlab": "gitlab", "gitlab-ci": "gitlab"}

const ciWay = "`rayctl init github` writes a GitHub workflow, and `rayctl init gitlab` a .gitlab-ci.yml"

// CITemplate is the template for somebody who asks for a CI system; where the name says none, it is the one that this repository uses, else the error
// names both. "": name asks for something else.
func CITemplate(name string) (string, error) {
	template, ok := ciTemplates[strings.ToLower(name)]
	if !ok || template != "" {
		return template, nil
	}
	_, noGitHub := os.Stat(".github")
	_, noGitLab := os.Stat(".gitlab-ci.yml")
	if noGitHub == nil && noGitLab != nil {
		return "github", nil
	}
	return "", UsageError(ciWay, "the CI system is not said")
}

// IsYAMLFile reports whether an argument is a YAML file by its name, as a cluster file or a config of Serve is; a cluster cannot have such a name.
func IsYAMLFile(word string) bool {
	return strings.HasSuffix(word, ".yaml") || strings.HasSuffix(word, ".yml")
}

// FileNotName refuses a cluster file that was given in place of a name.
func FileNotName(c *cobra.Command, word string) error {
	if !IsYAMLFile(word) {
		return nil
	}
	return UsageError("did you mean `"+c.CommandPath()+" -f "+shellescape.Quote(word)+"`?", "%q is a file, not a cluster's name", word)
}

// OtherVerb is a hidden command for a verb of other tools: it names what to type instead.
func OtherVerb(word, hint string) *cobra.Command {
	return &cobra.Command{
		Use: word, Hidden: true, DisableFlagParsing: true,
		RunE: func(c *cobra.Command, _ []string) error {
			return UsageError(hint, "there is no command `%s`", c.CommandPath())
		},
	}
}

// place puts -- before a command that was written without it where its meaning is clear: SCRIPT.py that is there, with rayctl's flags or the script's own behind
// it, and for exec a program after a cluster's name. If flags of both are behind it, the error has them where they belong.
func (a *App) place(root *cobra.Command, args []string) ([]string, error) {
	c, _, err := root.Find(args)
	if err != nil || c.DisableFlagParsing {
		return args, nil //nolint:nilerr // cobra finds the same, and says it
	}
	fs := flagsOf(c)
	args = joinOptional(fs, args)
	kinds := wordKinds(fs, args)
	begin := commandBegins(c, args, kinds)
	if begin < 0 {
		return args, nil
	}
	a.args = args
	known := slices.Contains(kinds[begin:], flagWord)
	others := slices.Contains(kinds[begin+1:], unknownWord) || slices.Contains(kinds[begin+1:], plainWord)
	script := filepath.Ext(args[begin]) == ".py"
	flags, command := splitWords(fs, args[begin:])
	dir := lastValue(fs, slices.Concat(args[:begin], flags), "working-dir") // where the job begins, which is checked with it
	unclear := ""
	if script && known {
		unclear = mayBeOf(filepath.Join(dir, args[begin]), flags)
	}
	switch {
	case script && takesScript(c) && dir == "" && !isFile(args[begin]):
		return nil, UsageError("for one that only the nodes have, write `"+a.dashed(c, args[begin])+"`", "there is no file %s here", args[begin])
	case known && (others || !script), script && !takesScript(c):
		return nil, a.afterDash(c, args[begin])
	case unclear != "":
		ours := shellescape.QuoteCommand(slices.Concat([]string{root.Name()}, args[:begin], flags, command))
		theirs := shellescape.QuoteCommand(slices.Concat([]string{root.Name()}, args[:begin], []string{"--", "python"}, args[begin:]))
		return nil, UsageError("`"+theirs+"` gives it to the script, `"+ours+"` to rayctl", "%s is a flag of rayctl, and may be one of %s", unclear, args[begin])
	}
	if script {
		command = append([]string{"python"}, command...)
	}
	return slices.Concat(args[:begin], flags, []string{"--"}, command), nil
}

// freeArguments are in the text of scripts that look at their arguments themselves, or leave them to a library that takes any.
var freeArguments = []string{"sys.argv", "parse_known_args", "import fire", "import hydra"}

// mayBeOf is the first of rayctl's flags that may be a script's: its text names it, or takes any; "": none.
func mayBeOf(script string, flags []string) string {
	text, err := os.ReadFile(script)
	if err != nil {
		return ""
	}
	has := func(word string) bool { return strings.Contains(string(text), word) }
	free := slices.ContainsFunc(freeArguments, has)
	for _, flag := range flags {
		name, _, _ := strings.Cut(flag, "=")
		if strings.HasPrefix(name, "-") && (free || has(`"`+name+`"`) || has("'"+name+"'")) {
			return name
		}
	}
	return ""
}

// commandBegins is the place of the first word of a user's command that is written without --; -1 if it is not clear that there is one.
func commandBegins(c *cobra.Command, args []string, kinds []wordKind) int {
	var plain []int
	for i, kind := range kinds {
		if kind == plainWord {
			plain = append(plain, i)
		}
	}
	plain = plain[min(len(plain), len(strings.Fields(c.CommandPath()))-1):] // those before are the verb
	if !takesCommand(c) || slices.Contains(kinds, dashWord) || len(plain) == 0 {
		return -1
	}
	isScript := func(i int) bool { return filepath.Ext(args[i]) == ".py" }
	if takesScript(c) && (isScript(plain[0]) || len(plain) > 1 && slices.Contains(interpreters, args[plain[0]])) {
		return plain[0]
	}
	if !takesCluster(c) || len(plain) < 2 || spec.CheckName(args[plain[0]]) != nil || isProgram(args[plain[0]]) {
		return -1
	}
	if takesScript(c) == isScript(plain[1]) { // exec runs programs, submit scripts
		return plain[1]
	}
	return -1
}

// interpreters begin a command as it is typed without rayctl.
var interpreters = []string{"python", "python3"}

// takesScript reports whether a command accepts a Python file without --.
func takesScript(c *cobra.Command) bool { return strings.Contains(c.Use, "[SCRIPT.py |") }

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// AtMost limits the arguments before --; those after it are the user's command.
func (a *App) AtMost(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		own, _ := SplitDash(c, args)
		if len(own) <= n {
			return nil
		}
		if first, ok := strayCommand(c); ok {
			return a.afterDash(c, first)
		}
		return a.afterDash(c, own[n])
	}
}

// NoDash is AtMost for commands that run no command of the user.
func NoDash(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > n {
			return UsageError("", "`%s` takes %s; remove %q", c.CommandPath(), what, args[n])
		}
		return nil
	}
}

// noEmptyNames refuses empty names, as `rayctl down "$NAME"` gives if NAME is not set: they would mean the default, such as your only
// cluster.
func noEmptyNames(c *cobra.Command, args []string) error {
	if c.Name() == cobra.ShellCompRequestCmd || c.Name() == cobra.ShellCompNoDescRequestCmd {
		return nil // the argument to complete may be empty
	}
	const hint = "give a value, or leave it out"
	own, _ := SplitDash(c, args)
	if i := slices.Index(own, ""); i >= 0 {
		return UsageError(hint, "argument %d of `%s` is empty", i+1, c.CommandPath())
	}
	for _, name := range []string{"name", "cluster", "address", "verify", "file", "profile", "submission-id", "node"} {
		if f := c.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return UsageError(hint, "--%s is empty", name)
		}
	}
	return nil
}

// SplitDash separates the arguments before -- from those after it.
func SplitDash(c *cobra.Command, args []string) (own, command []string) {
	if n := c.ArgsLenAtDash(); n >= 0 {
		return args[:n], args[n:]
	}
	return args, nil
}

// First is the first argument, or "".
func First(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// pair reads KEY=VALUE.
func pair(flag, text string) (key, value string, err error) {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return "", "", UsageError("write it KEY=VALUE", "%s: %q is not a pair", flag, text)
	}
	return key, value, nil
}

// Pairs reads the values KEY=VALUE of a repeated flag.
func Pairs(flag string, texts []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range texts {
		k, v, err := pair(flag, text)
		if err != nil {
			return nil, err
		}
		out[k] = v
	}
	return out, nil
}
