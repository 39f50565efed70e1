// Package tarstream packs files of this machine for a node, and unpacks a node's files so that nothing is written outside of the destination.
package tarstream

import (
	"crypto/rand"
	"io/fs"
	"path/filepath"
	"strings"
)

// StageName is a unique name for unfinished files beside a target. If the other machine sees a file of this name, both use the same
// directory.
func StageName() string { return "rayctl-cp-" + strings.ToLower(rand.Text()) }

// Absolute is p from the root, so that "." and ".." get a name.
func Absolute(p string) string {
	abs, err := filepath.Abs(p)
	if err != nil {
		return p
	}
	return abs
}

// TreeSize counts the bytes of a file or of those in a directory.
func TreeSize(src string) (total int64, err error) {
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
