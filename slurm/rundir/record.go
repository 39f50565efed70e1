package rundir

import (
	"time"

	"github.com/rayctl/rayctl/launcher/spec"
)

// Files of a run's directory, besides the batch script and the attempts.
const (
	recordFile  = "record.json"
	jobFile     = "job"
	currentFile = "current"
	seedDir     = "seed"
	firstDir    = "1" // of the first attempt
)

// OutputName is the default output directory, the same for all attempts.
const OutputName = "output"

// Record has who launched what. The launch that creates it (exclusively) has the name.
type Record struct {
	Name     string            `json:"name"`
	Owner    string            `json:"owner"` // user@host
	Nonce    string            `json:"nonce"` // in the job's comment
	Created  time.Time         `json:"created"`
	Labels   map[string]string `json:"labels,omitempty"`
	Command  string            `json:"command,omitempty"`
	Python   string            `json:"python"`
	Programs string            `json:"programs"` // directory of the keeper's files
	Spec     *spec.ClusterSpec `json:"spec"`
}

func (r *Record) keep() time.Duration { return time.Duration(*r.Spec.Lifetime.Keep) }

// Current is where the job runs, written by the job itself.
type Current struct {
	Attempt string `json:"attempt"` // directory
	Job     int    `json:"job"`     // id
	Node    string `json:"node"`    // the batch system's name of the head's node
	Start   int64  `json:"start"`   // Unix time of the allocation; 0 if the batch system does not report it (Slurm before 23.02)
}

// leastKeep lets whoever watched a cluster with `keep: 0` read its result.
const leastKeep = time.Minute
