package controller

import (
	"strconv"
	"strings"
)

// extraField is the field of a submission that corresponds to an argument of sbatch.
type extraField struct {
	name string
	put  func(value string) any // as the API takes it since 23.02; nil: as text, and so does 22.05
}

// extraFields are the arguments of sbatch that slurm.extraArgs may have with slurmrestd. Fields: openapi.json of 22.05 and of 23.11 to 26.05.
var extraFields = map[string]extraField{
	"--wckey":     {name: "wckey"},
	"--licenses":  {name: "licenses"},
	"--mail-type": {name: "mail_type", put: mailTypes},
	"--mail-user": {name: "mail_user"},
	"--nice":      {name: "nice", put: whole},
}

// short are sbatch's letters for them.
var short = map[string]string{"-L": "--licenses"}

func whole(value string) any {
	n, err := strconv.Atoi(value)
	if err != nil {
		return value // which slurmrestd refuses in its own words
	}
	return n
}

// mailNames are words of sbatch's --mail-type that the API has other words for.
var mailNames = map[string][]string{
	"NONE": nil, "ALL": {"BEGIN", "END", "FAIL", "INVALID_DEPENDENCY", "REQUEUE", "STAGE_OUT"},
	"TIME_LIMIT": {"TIME=100%"}, "TIME_LIMIT_90": {"TIME=90%"}, "TIME_LIMIT_80": {"TIME=80%"}, "TIME_LIMIT_50": {"TIME=50%"},
}

// mailTypes are sbatch's --mail-type as a list.
func mailTypes(value string) any {
	out := []string{}
	for _, word := range strings.Split(strings.ToUpper(value), ",") {
		words, other := mailNames[word]
		if !other {
			words = []string{word}
		}
		out = append(out, words...)
	}
	return out
}

// extraArgs puts slurm.extraArgs into the fields of a part of a submission.
func extraArgs(part map[string]any, args []string, version string) error {
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		if !strings.HasPrefix(a, "--") && len(a) > 2 {
			name, value = a[:2], strings.TrimPrefix(a[2:], "=")
		}
		if long := short[name]; long != "" {
			name = long
		}
		field, known := extraFields[name]
		switch {
		case !known:
			return cannot(name+" of slurm.extraArgs", ": rayctl knows no field of its API for it")
		case field.put == nil || version == v38:
			part[field.name] = value
		default:
			part[field.name] = field.put(value)
		}
	}
	return nil
}
