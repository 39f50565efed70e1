package onemachine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
)

// linkMounts makes each mount's mountPath on this machine a symbolic link to its source, unless they are the same directory. Here has no reason against it.
func linkMounts(mounts []spec.Mount, note func(string)) error {
	for _, m := range mounts {
		source, err := filepath.Abs(localspec.Source(m.Source.Sections))
		if err == nil && !sameDir(source, m.MountPath) {
			if err = os.Symlink(source, m.MountPath); err == nil {
				note(fmt.Sprintf("linked %s to %s", m.MountPath, source))
			}
		}
		if err != nil {
			return launcher.Fail(runstate.CodeSpec, err, "make it a link to "+source+" yourself, or choose another mountPath",
				"the mount %s cannot be made: %v", m.MountPath, errors.Unwrap(err))
		}
	}
	return nil
}

func sameDir(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
