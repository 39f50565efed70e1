package localspec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rayctl/rayctl/launcher/spec"
)

// Here are the reasons why this machine, on which the nodes run, cannot have the file's mounts. It changes nothing.
func Here(s *spec.ClusterSpec) (problems spec.Errors) {
	for i, m := range s.Mounts {
		if cause, hint := mountable(m); cause != "" {
			problems = append(problems, &spec.Error{Path: fmt.Sprintf("mounts[%d]", i), Msg: cause, Hint: hint})
		}
	}
	return problems
}

// mountable is why mountPath cannot be a link to the source on this machine, and what to do; "" if it can, or is the same directory.
func mountable(m spec.Mount) (cause, hint string) {
	source, err := filepath.Abs(Source(m.Source.Sections))
	if Source(m.Source.Sections) == "" || err != nil {
		return fmt.Sprintf("the mount %s has no source on this machine", m.MountPath), "add source.local to the mount"
	}
	from, err := os.Stat(source)
	if err != nil || !from.IsDir() {
		return fmt.Sprintf("the source %s is no directory of this machine", source), "make it, or correct source.local"
	}
	if to, err := os.Stat(m.MountPath); err == nil && os.SameFile(from, to) {
		return "", ""
	}
	hint = "make it a link to " + source + " yourself, or choose another mountPath"
	if _, err := os.Lstat(m.MountPath); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("%s exists on this machine, and is not %s", m.MountPath, source), hint
	}
	parent := filepath.Dir(m.MountPath)
	if err := unix.Access(parent, unix.W_OK); err != nil {
		return fmt.Sprintf("%s cannot be made in %s: %v", m.MountPath, parent, err), hint
	}
	return "", ""
}
