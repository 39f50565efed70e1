package pack

import (
	"io/fs"
	"syscall"
)

func stateOf(info fs.FileInfo) state {
	s := state{size: info.Size(), mtime: info.ModTime().UnixNano()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		s.ctime, s.inode = stat.Ctimespec.Nano(), stat.Ino
	}
	return s
}
