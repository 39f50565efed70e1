//go:build !linux

package bed

import (
	"errors"
	"fmt"
)

// unmount has nothing to do where no bed can be built; it makes the package compile there.
func unmount(point string) error {
	return fmt.Errorf("unmounting %s: %w", point, errors.ErrUnsupported)
}
