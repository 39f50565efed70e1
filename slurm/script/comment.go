package script

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// Comment is what a job of ours carries: it names the launch, so that an answer of sbatch that was lost is found again. Afterwards the job is known by
// its id: comments may be rewritten, by their owner, an administrator, or a plugin of the site (JobSubmitPlugins). slurm.comment takes its place.
func Comment(name, hash, nonce string) string {
	return fmt.Sprintf("rayctl name=%s spec=%s nonce=%s", name, hash, nonce)
}

// Comment is the comment of the plan's job: slurm.comment of the file, else rayctl's own.
func (p Plan) Comment() string {
	return cmp.Or(slurmspec.Of(p.Spec).Comment, Comment(p.Spec.Name, spec.Hash(p.Spec), p.Nonce))
}

// Commented is the value of a key in a comment of ours; "" in others' comments.
func Commented(comment, key string) string {
	if !strings.HasPrefix(comment, "rayctl ") {
		return ""
	}
	_, rest, _ := strings.Cut(comment, " "+key+"=")
	value, _, _ := strings.Cut(rest, " ")
	return value
}

// NonceOf is the nonce in a comment of ours.
func NonceOf(comment string) string { return Commented(comment, "nonce") }
