// Package wholefile replaces files so that readers see the old content or the new, never a part.
package wholefile

import (
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Write replaces path by a file with exactly this mode. The content is on the disk before it is seen.
func Write(path string, content []byte, mode os.FileMode) error {
	// Not renameio.WriteFile, which keeps the mode of what was there. Beside the target: renameio would else try out TMPDIR first.
	file, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(mode), renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	defer func() { _ = file.Cleanup() }() // of a failure; nothing after a success
	if _, err := file.Write(content); err != nil {
		return err
	}
	return file.CloseAtomicallyReplace()
}
