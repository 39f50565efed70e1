package sharedfile

import (
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Write replaces path so that readers get the old content or the new, never a part: by a file with exactly this mode. The content is on the disk before it becomes visible.
func Write(path string, content []byte, mode os.FileMode) error {
	// renameio.WriteFile would keep the mode of an existing file. Without WithTempDir renameio would try TMPDIR first.
	file, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(mode), renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	defer func() { _ = file.Cleanup() }() // after a failure; a no-op after success
	if _, err := file.Write(content); err != nil {
		return err
	}
	return file.CloseAtomicallyReplace()
}
