package app

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/launcher/spec/units"
)

// wordKind is what a word is for a command.
type wordKind int

// The kinds of words. A valueWord follows a flag that takes one; after -- all words are behindWord.
const (
	plainWord wordKind = iota
	flagWord
	valueWord
	unknownWord // a flag that the command does not have
	dashWord
	behindWord
)

// flagsOf are all flags of a command, as they are when it runs.
func flagsOf(c *cobra.Command) *pflag.FlagSet {
	c.InitDefaultHelpFlag()
	c.InheritedFlags() // adds them to the command's own
	return c.Flags()
}

// wordKinds is what each word is.
func wordKinds(fs *pflag.FlagSet, args []string) []wordKind {
	kinds := make([]wordKind, len(args))
	for i := 0; i < len(args); i++ {
		word := args[i]
		valued := false
		switch {
		case word == "--":
			kinds[i] = dashWord
			for i++; i < len(args); i++ {
				kinds[i] = behindWord
			}
		case strings.HasPrefix(word, "--"):
			kinds[i], valued = longFlag(fs, word[2:])
		case strings.HasPrefix(word, "-") && word != "-":
			kinds[i], valued = shortFlag(fs, word[1:])
		}
		if valued && i+1 < len(args) {
			i++
			kinds[i] = valueWord
		}
	}
	return kinds
}

// longFlag is what --name or --name=value is, and whether the next word is its value.
func longFlag(fs *pflag.FlagSet, word string) (kind wordKind, valued bool) {
	name, _, has := strings.Cut(word, "=")
	f := fs.Lookup(name)
	if f == nil {
		return unknownWord, false
	}
	return flagWord, !has && f.NoOptDefVal == ""
}

// shortFlag is what a word of one-letter flags is.
func shortFlag(fs *pflag.FlagSet, letters string) (kind wordKind, valued bool) {
	for i := range len(letters) {
		f := fs.ShorthandLookup(letters[i : i+1])
		switch {
		case f == nil:
			return unknownWord, false
		case f.NoOptDefVal == "": // the rest is its value
			return flagWord, i+1 == len(letters)
		case i+1 < len(letters) && letters[i+1] == '=':
			return flagWord, false
		}
	}
	return flagWord, false
}

// splitWords divides words before -- into flags that the command has, with their values, and others.
func splitWords(fs *pflag.FlagSet, args []string) (flags, others []string) {
	for i, kind := range wordKinds(fs, args) {
		if kind == flagWord || kind == valueWord {
			flags = append(flags, args[i])
		} else {
			others = append(others, args[i])
		}
	}
	return flags, others
}

// lastValue is the value that a flag with a value of its own has last in words before --; "": it is not given.
func lastValue(fs *pflag.FlagSet, args []string, name string) string {
	value := ""
	for i, kind := range wordKinds(fs, args) {
		if kind != flagWord || !strings.HasPrefix(args[i], "--") {
			continue
		}
		given, joined, has := strings.Cut(args[i][2:], "=")
		switch f := fs.Lookup(given); {
		case f.Name != name:
		case has:
			value = joined
		case i+1 < len(args):
			value = args[i+1]
		}
	}
	return value
}

// joinOptional joins a flag whose value may be left out with a value after it, which pflag takes for an argument: --end-on-disconnect 20s, --each-node 2.
func joinOptional(fs *pflag.FlagSet, args []string) []string {
	joined := slices.Clone(args)
	for i := len(joined) - 2; i >= 0; i-- {
		f := fs.Lookup(strings.TrimPrefix(joined[i], "--"))
		if f == nil || !strings.HasPrefix(joined[i], "--") || f.Value.Type() != "string" || f.NoOptDefVal == "" || slices.Contains(joined[:i], "--") {
			continue
		}
		if isValue(f, joined[i+1]) {
			joined = slices.Replace(joined, i, i+2, joined[i]+"="+joined[i+1])
		}
	}
	return joined
}

// isValue reports whether a word can be a value of the same kind as the one that a flag has where it is left out: a time, or a number of processes.
func isValue(f *pflag.Flag, word string) bool {
	if _, err := units.ParseDuration(f.NoOptDefVal); err == nil {
		_, err := units.ParseDuration(word)
		return err == nil
	}
	var each units.Each
	return each.UnmarshalText([]byte(f.NoOptDefVal)) == nil && each.UnmarshalText([]byte(word)) == nil
}
