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

// linkMounts makes each mount's mountPath on this machine a symbolic link to its source. If mountPath exists already, it must be the source itself.
func linkMounts(mounts []spec.Mount, note func(string)) error {
	for _, m := range mounts {
		source := localspec.Source(m.Source.Sections)
		if source == "" {
			return launcher.Fail(runstate.CodeSpec, nil, "add source.local to the mount", "the mount %s has no source on this machine", m.MountPath)
		}
		source, err := filepath.Abs(source)
		if err != nil || !isDir(source) {
			return launcher.Fail(runstate.CodeSpec, err, "make it, or correct source.local", "the source %s of the mount %s is no directory", source, m.MountPath)
		}
		if sameDir(source, m.MountPath) {
			continue
		}
		if err := os.Symlink(source, m.MountPath); err != nil {
			return launcher.Fail(runstate.CodeSpec, err, "make it a link to "+source+" yourself, or choose another mountPath",
				"the mount %s cannot be made: %v", m.MountPath, errors.Unwrap(err))
		}
		note(fmt.Sprintf("linked %s to %s", m.MountPath, source))
	}
	return nil
}

func sameDir(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
