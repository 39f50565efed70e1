package nodefiles

import (
	"crypto/rand"
	"io/fs"
	"path/filepath"
	"strings"
)

// stageName is a unique name for unfinished files beside a target. If the other machine sees a file of this name, both use the same
// directory.
func stageName() string { return "rayctl-cp-" + strings.ToLower(rand.Text()) }

// absolute is p from the root, so that "." and ".." get a name.
func absolute(p string) string {
	abs, err := filepath.Abs(p)
	if err != nil {
		return p
	}
	return abs
}

// treeSize counts the bytes of a file or of those in a directory.
func treeSize(src string) (total int64, err error) {
	err = filepath.WalkDir(src, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}
