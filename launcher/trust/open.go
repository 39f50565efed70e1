package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// OpenError is the reason why something is not read as a file.
type OpenError struct {
	Path string
	Is   string // "is a link"
}

func (e *OpenError) Error() string { return e.Path + " " + e.Is }

// Open opens a regular file for reading. It follows no link in the path's last name, waits for no writer of a pipe, and takes only a file of this owner or
// root's: what another user planted under the name is an *OpenError.
func Open(path string, owner uint32) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, &OpenError{path, "is a link"}
	case errors.Is(err, syscall.ENXIO): // a socket
		return nil, &OpenError{path, "is no regular file"}
	case err != nil:
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		err = checkRegular(path, info, owner)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func checkRegular(path string, info fs.FileInfo, owner uint32) error {
	if !info.Mode().IsRegular() {
		return &OpenError{path, "is no regular file"}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != owner && st.Uid != 0 {
		return &OpenError{path, fmt.Sprintf("belongs to user %d", st.Uid)}
	}
	return nil
}
