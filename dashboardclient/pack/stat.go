package pack

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
)

// identify distinguishes directories.
func identify(info fs.FileInfo) identity {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return identity{device: uint64(stat.Dev), inode: stat.Ino} //nolint:unconvert // Dev is an int32 on macOS
	}
	return identity{}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
