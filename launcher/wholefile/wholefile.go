// Package wholefile replaces files so that readers see the old content or the new, never a part.
package wholefile

import (
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Write replaces path by a file with exactly this mode, whatever mode was there before. The content is on the disk before it is seen.
func Write(path string, content []byte, mode os.FileMode) error {
	// Beside the target: renameio would else try out TMPDIR first.
	return renameio.WriteFile(path, content, mode, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(mode))
}
