package onemachine

import (
	"errors"
	"os"
	"strings"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// WriteResult writes the result in a dead keeper's place, with what was saved of the driver's output, and removes what must not outlive the cluster.
func (r *runDir) WriteResult(st *runstate.State) (err error) {
	if st.Log, err = r.salvage(st.Job); err != nil {
		return writeFailed(r.Dir, err)
	}
	if err := writeJSON(r.Path(keeper.ResultFile), st); err != nil {
		return writeFailed(r.Dir, err)
	}
	return r.removeSecrets()
}

// Remove deletes the run directory. Output of drivers that is in it stays: rayctl deletes no results of others.
func (r *runDir) Remove() error {
	entries, err := os.ReadDir(r.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	// The record goes first: without it the rest is nobody's cluster, should we die here.
	for _, name := range append([]string{recordFile}, namesOf(entries)...) {
		if name == outputName {
			os.Remove(r.Path(name)) // only if it is empty
			continue
		}
		if err := os.RemoveAll(r.Path(name)); err != nil {
			return launcher.Fail(runstate.CodeInternal, err, "remove it yourself", "the record of %s cannot be removed: %v", r.Name, err)
		}
	}
	if err != nil {
		return writeFailed(r.Dir, err)
	}
	os.Remove(r.Dir) // only if no output is left in it
	return nil
}

// removeSecrets removes what must not outlive the cluster.
func (r *runDir) removeSecrets() error {
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		return writeFailed(r.Dir, err)
	}
	for _, name := range namesOf(entries) {
		if !keeper.IsSecret(name) && !strings.HasPrefix(name, orders.PackagePrefix) {
			continue
		}
		if err := os.Remove(r.Path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return writeFailed(r.Dir, err)
		}
	}
	return nil
}
