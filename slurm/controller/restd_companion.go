package controller

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// companion is the body of a submission for which sbatch has Argv: its options, and the directives of the script that it names, as fields. The API has no
// arguments of a script in its oldest version, so that the script sets them itself.
func (b Batch) companion(version string) (map[string]any, error) {
	first := slices.IndexFunc(b.Argv, func(a string) bool { return !strings.HasPrefix(a, "-") })
	given, name := map[string]string{}, ""
	if first >= 0 {
		name = path.Base(b.Argv[first])
	}
	components := b.Plan.OfCompanion(name)
	if len(components) == 0 {
		return nil, cannot("the job of "+name, ": its cluster has no such script")
	}
	for _, a := range b.Argv[:first] {
		option, value, _ := strings.Cut(a, "=")
		given[option] = value
	}
	gang := name == script.GangFile
	w := wholeJob{
		name: given["--job-name"], dir: given["--chdir"], output: given["--output"], comment: cmp.Or(given["--comment"], slurmspec.Of(b.Plan.Spec).Comment), array: given["--array"],
		script: withArguments(b.Text, b.Argv[first+1:]), minutes: cmp.Or(given["--time"], b.Plan.TimeLimit()), licensed: true, warning: warningOf(given["--signal"]),
	}
	if gang {
		w.comment, w.warning = b.Plan.GangComment(), int(b.Plan.Warning().Seconds())
	}
	return b.body(components, w, version)
}

// warningOf is the number of seconds in B:USR1@60.
func warningOf(signal string) int {
	_, after, _ := strings.Cut(signal, "@")
	seconds, _ := strconv.ParseFloat(after, 64) // of a known form, see slurm/offers.go
	return int(seconds)
}

// withArguments is a batch script that has these arguments.
func withArguments(text string, arguments []string) string {
	shebang, rest, _ := strings.Cut(text, "\n")
	return shebang + "\nset -- " + shellescape.QuoteCommand(arguments) + "\n" + rest
}
