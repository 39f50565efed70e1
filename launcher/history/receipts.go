package history

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/sharedfile"
)

// receiptsKept is the number of receipts that Add leaves.
const receiptsKept = 500

// Receipts are of the ends that this machine has seen: a directory with a file for each.
type Receipts struct{ Dir string }

// WriteReceipt writes a receipt as JSON, atomically.
func WriteReceipt(path string, rc *launcher.Receipt) error {
	data, err := json.MarshalIndent(rc, "", "  ")
	if err != nil {
		return err
	}
	return sharedfile.Write(path, append(data, '\n'), 0o644)
}

// Add saves a receipt.
func (r Receipts) Add(rc *launcher.Receipt) error {
	name := rc.Ended.UTC().Format("20060102T150405.000Z") + "-" + rc.Name + ".json"
	if err := WriteReceipt(filepath.Join(r.Dir, name), rc); err != nil {
		return err
	}
	files, err := r.files()
	if err != nil || len(files) <= receiptsKept {
		return err
	}
	slices.Sort(files)
	for _, old := range files[:len(files)-receiptsKept] {
		if err := os.Remove(old); err != nil {
			return err
		}
	}
	return nil
}

// All are the receipts; files that are none are skipped.
func (r Receipts) All() (all []launcher.Receipt, err error) {
	err = r.each(func(_ string, rc *launcher.Receipt) error {
		all = append(all, *rc)
		return nil
	})
	return all, err
}

// Last is the receipt of the cluster of this name that ended last; nil: there is none. Launches that were refused, whose timeline is empty, do not count: a
// cluster of that name may be somebody else's.
func (r Receipts) Last(launcherName, name string) (last *launcher.Receipt, err error) {
	err = r.each(func(_ string, rc *launcher.Receipt) error {
		if rc.Name == name && rc.Launcher == launcherName && len(rc.Timeline) > 0 && (last == nil || last.Ended.Before(rc.Ended)) {
			last = rc
		}
		return nil
	})
	return last, err
}

// Forget removes the receipts of what ended before that moment.
func (r Receipts) Forget(before time.Time, dryRun bool) (removed []launcher.Collected, err error) {
	err = r.each(func(file string, rc *launcher.Receipt) error {
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

// each calls use with the receipts and their files, and skips what is none.
func (r Receipts) each(use func(file string, rc *launcher.Receipt) error) error {
	files, err := r.files()
	if err != nil {
		return err
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		rc := new(launcher.Receipt)
		if json.Unmarshal(data, rc) != nil {
			continue
		}
		if err := use(f, rc); err != nil {
			return err
		}
	}
	return nil
}

func (r Receipts) files() ([]string, error) { return filepath.Glob(filepath.Join(r.Dir, "*.json")) }
