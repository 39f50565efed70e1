package remote

import (
	"regexp"
	"strings"
)

// Complaint is what a command of Slurm says of its failure, without its own name: the last line that is an error.
func Complaint(t *Tail) string {
	lines := strings.Split(strings.TrimSpace(t.String()), "\n")
	said := lines[len(lines)-1]
	for _, line := range lines {
		if strings.Contains(line, "error: ") || strings.Contains(line, "unrecognized option") {
			said = line
		}
	}
	return strings.TrimSpace(prefix.ReplaceAllString(said, ""))
}

var prefix = regexp.MustCompile(`^(sbatch|squeue|scancel|srun|scontrol|sinfo|slurm_load_\w+):( error:)?\s*|Batch job submission failed:\s*|allocation failure:\s*|^slurm_\w+ error:\s*`)
