// Package report writes and keeps what is known of a run that has ended: its receipt, the report for CI, and the receipts of this machine.
package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/dashboardclient/pack"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/wholefile"
)

// historySize is the number of receipts kept on this machine.
const historySize = 500

// Text is a receipt as `run` prints it.
func Text(rc *launcher.Receipt) string {
	var b bytes.Buffer
	if err := rc.WriteText(&b); err != nil {
		return err.Error()
	}
	return b.String()
}

// writeReceipt writes the receipt as JSON, atomically.
func writeReceipt(path string, rc *launcher.Receipt) error {
	data, err := json.MarshalIndent(rc, "", "  ")
	if err != nil {
		return err
	}
	return wholefile.Write(path, append(data, '\n'), 0o644)
}

// Remember saves a receipt for `history`.
func Remember(a *app.App, rc *launcher.Receipt) error {
	dir, err := a.CacheDir("receipts")
	if err != nil {
		return err
	}
	name := rc.Ended.UTC().Format("20060102T150405.000Z") + "-" + rc.Name + ".json"
	if err := writeReceipt(filepath.Join(dir, name), rc); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) <= historySize {
		return err
	}
	slices.Sort(files)
	for _, old := range files[:len(files)-historySize] {
		if err := os.Remove(old); err != nil {
			return err
		}
	}
	return nil
}

// RememberRefused returns a function that saves and returns the receipt of a failed launch, because no substrate has a record of it. A name conflict is
// not a launch: it has none.
func RememberRefused(a *app.App, s *spec.ClusterSpec) func(error) *launcher.Receipt {
	began := time.Now().UTC()
	return func(err error) *launcher.Receipt {
		if errors.Is(err, launcher.ErrConflict) || errors.Is(err, launcher.ErrEnded) {
			return nil
		}
		a.LaunchEnded(s.Name)
		rc := Refused(s, began, err)
		if err := Remember(a, rc); err != nil {
			a.Logger().Debug("the refused launch is not in the history", "error", err)
		}
		return rc
	}
}

// Refused is the receipt of a launch that failed before anything was begun. s has only a name where the cluster file could not be read.
func Refused(s *spec.ClusterSpec, began time.Time, err error) *launcher.Receipt {
	cause, code := runstate.CauseStartFailed, launcher.ExitCode(err)
	var names *pack.NamesError
	switch {
	case errors.As(err, &names):
		cause = runstate.CausePackageFailed
	case code == runstate.CodeInterrupted:
		cause = runstate.CauseInterrupted
	case code == runstate.CodeQueueTimeout:
		cause = runstate.CauseQueue
	}
	ended := time.Now().UTC()
	return &launcher.Receipt{
		Name: s.Name, Launcher: s.Launcher, SpecHash: spec.Hash(s), Created: began, Ended: ended, Timeline: []runstate.Event{},
		Exit:      runstate.Exit{Origin: runstate.OriginRayctl, Cause: cause, Code: code, Message: app.Sentence(err)},
		Durations: launcher.Durations{Total: ended.Sub(began).Seconds()},
	}
}

// Read reads the receipts kept on this machine and skips unreadable ones.
func Read(a *app.App) ([]launcher.Receipt, error) {
	var out []launcher.Receipt
	err := each(a, func(_ string, rc *launcher.Receipt) error {
		out = append(out, *rc)
		return nil
	})
	return out, err
}

// Concluded is the receipt of the last run of this name that this machine has seen end, for when nobody answers who could say more; nil: there is none, or this
// machine has launched the name again since.
func Concluded(a *app.App, launcherName, name string) (last *launcher.Receipt) {
	if a.MayLive(name) {
		return nil
	}
	receipts, err := Read(a)
	if err != nil {
		a.Logger().Debug("the receipts cannot be read", "error", err)
	}
	for i, rc := range receipts {
		refused := len(rc.Timeline) == 0 // see Refused: a cluster of that name may be somebody else's
		if rc.Name == name && rc.Launcher == launcherName && !refused && (last == nil || last.Ended.Before(rc.Ended)) {
			last = &receipts[i]
		}
	}
	return last
}

// Forget removes the receipts of what ended before that moment.
func Forget(a *app.App, before time.Time, dryRun bool) (removed []launcher.Collected, err error) {
	err = each(a, func(file string, rc *launcher.Receipt) error {
		if rc.Ended.After(before) {
			return nil
		}
		if !dryRun {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
		removed = append(removed, launcher.Collected{What: "receipt", Name: rc.Name, Why: "ended " + launcher.Stamp(rc.Ended)})
		return nil
	})
	return removed, err
}

// each calls use with the receipts of this machine and their files, and skips what is none.
func each(a *app.App, use func(file string, rc *launcher.Receipt) error) error {
	dir, err := a.ReadCacheDir("receipts")
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		rc := new(launcher.Receipt)
		if err := json.Unmarshal(data, rc); err != nil {
			a.Logger().Debug("not a receipt", "file", f, "error", strings.TrimSpace(err.Error()))
			continue
		}
		if err := use(f, rc); err != nil {
			return err
		}
	}
	return nil
}
