package bed

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

func unmount(point string) error {
	err := unix.Unmount(point, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmounting %s: %w", point, err)
	}
	return nil
}
