// Package words tells the words of a command line apart: flags that a command has, their values, and what is not the command's.
package words

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/launcher/spec/units"
)

// Kind is what a word is for a command.
type Kind int

// Kinds of words. Value is the word after a flag that takes one; after -- all words are Behind.
const (
	Plain Kind = iota
	Flag
	Value
	Unknown // a flag that the command does not have
	Dash
	Behind
)

// FlagsOf are all flags of a command, as they are when it runs.
func FlagsOf(c *cobra.Command) *pflag.FlagSet {
	c.InitDefaultHelpFlag()
	c.InheritedFlags() // adds them to the command's own
	return c.Flags()
}

// Kinds is what each word is.
func Kinds(fs *pflag.FlagSet, args []string) []Kind {
	kinds := make([]Kind, len(args))
	for i := 0; i < len(args); i++ {
		word := args[i]
		valued := false
		switch {
		case word == "--":
			kinds[i] = Dash
			for i++; i < len(args); i++ {
				kinds[i] = Behind
			}
		case strings.HasPrefix(word, "--"):
			kinds[i], valued = long(fs, word[2:])
		case strings.HasPrefix(word, "-") && word != "-":
			kinds[i], valued = short(fs, word[1:])
		}
		if valued && i+1 < len(args) {
			i++
			kinds[i] = Value
		}
	}
	return kinds
}

// long is what --name or --name=value is, and whether the next word is its value.
func long(fs *pflag.FlagSet, word string) (kind Kind, valued bool) {
	name, _, has := strings.Cut(word, "=")
	f := fs.Lookup(name)
	if f == nil {
		return Unknown, false
	}
	return Flag, !has && f.NoOptDefVal == ""
}

// short is what a word of one-letter flags is.
func short(fs *pflag.FlagSet, letters string) (kind Kind, valued bool) {
	for i := range len(letters) {
		f := fs.ShorthandLookup(letters[i : i+1])
		switch {
		case f == nil:
			return Unknown, false
		case f.NoOptDefVal == "": // the rest is its value
			return Flag, i+1 == len(letters)
		case i+1 < len(letters) && letters[i+1] == '=':
			return Flag, false
		}
	}
	return Flag, false
}

// Split divides words before -- into flags that the command has, with their values, and others.
func Split(fs *pflag.FlagSet, args []string) (flags, others []string) {
	for i, kind := range Kinds(fs, args) {
		if kind == Flag || kind == Value {
			flags = append(flags, args[i])
		} else {
			others = append(others, args[i])
		}
	}
	return flags, others
}

// JoinTimes joins a flag whose time may be left out with a time after it, which pflag takes for an argument: --end-on-disconnect 20s.
func JoinTimes(fs *pflag.FlagSet, args []string) []string {
	joined := slices.Clone(args)
	for i := len(joined) - 2; i >= 0; i-- {
		f := fs.Lookup(strings.TrimPrefix(joined[i], "--"))
		if f == nil || !strings.HasPrefix(joined[i], "--") || f.Value.Type() != "string" || f.NoOptDefVal == "" || slices.Contains(joined[:i], "--") {
			continue
		}
		if _, err := units.ParseDuration(joined[i+1]); err == nil {
			joined = slices.Replace(joined, i, i+2, joined[i]+"="+joined[i+1])
		}
	}
	return joined
}
