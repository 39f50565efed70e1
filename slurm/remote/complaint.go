package remote

import (
	"regexp"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/launcher/tail"
)

// Complaint is the error message of a Slurm command, without the command's name: the lines that are errors, the first of which may be a
// site's own words (JobSubmitPlugins), else its last line.
func Complaint(t *tail.Tail) string {
	lines := strings.Split(strings.TrimSpace(t.String()), "\n")
	var said []string
	for _, line := range lines {
		if strings.Contains(line, "error: ") || strings.Contains(line, "unrecognized option") || strings.HasPrefix(line, "allocation failure: ") { // the last as `sbatch --test-only` says it
			if line = bare(line); !slices.Contains(said, line) {
				said = append(said, line)
			}
		}
	}
	if len(said) == 0 {
		return bare(lines[len(lines)-1])
	}
	return strings.Join(said, "; ")
}

func bare(line string) string { return strings.TrimSpace(prefix.ReplaceAllString(line, "")) }

var prefix = regexp.MustCompile(`^(sbatch|squeue|scancel|srun|scontrol|sinfo|slurm_load_\w+):( error:)?\s*|Batch job submission failed:\s*|allocation failure:\s*|^slurm_\w+ error:\s*`)
