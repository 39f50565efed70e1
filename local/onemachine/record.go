package onemachine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rayctl/rayctl/launcher/sharedfile"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Files of this launcher in the run directory, besides the keeper's.
const (
	recordFile = "record.json" // who launched what
	errFile    = "keeper.err"  // the keeper's stderr: what it prints before it has its own log, and if it crashes
)

// outputName is the default output directory in the run directory.
const outputName = "output"

// record has what the keeper need not know.
type record struct {
	Name    string    `json:"name"`
	Owner   string    `json:"owner"` // user@host
	Host    string    `json:"host"`
	Mark    string    `json:"mark"` // in the environment of the cluster's processes
	Created time.Time `json:"created"`
	// Began is when the launch began, if it had to make the Python environment first.
	Began   *time.Time        `json:"began,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Command string            `json:"command,omitempty"`
	EnvDir  string            `json:"envDir,omitempty"` // the environment of rayctl's making that it uses
	Python  string            `json:"python"`
	Spec    *spec.ClusterSpec `json:"spec"`
}

func (r *record) keep() time.Duration { return time.Duration(*r.Spec.Lifetime.Keep) }

// writeJSON replaces a file atomically; only the user may read it.
func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	return sharedfile.Write(path, append(b, '\n'), 0o600)
}

// readJSON reads a file; found is false when it is not there.
func readJSON(path string, v any) (found bool, err error) {
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return true, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return true, nil
}
