package trust

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOpen reads a regular file of the owner, and nothing else. A pipe without a writer would block an open that is not O_NONBLOCK.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	me := uint32(os.Geteuid())
	if err := errors.Join(os.WriteFile(at("file"), []byte("text"), 0o600), os.Symlink("file", at("link")), os.Symlink("nothing", at("dangling")), os.Mkdir(at("dir"), 0o700),
		syscall.Mkfifo(at("pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	file, err := Open(at("file"), me)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(file); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	_ = file.Close()
	for name, want := range map[string]string{"link": "is a link", "dangling": "is a link", "dir": "is no regular file", "pipe": "is no regular file", "socket": "is no regular file"} {
		var planted *OpenError
		if _, err := Open(at(name), me); !errors.As(err, &planted) || planted.Is != want || planted.Path != at(name) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := Open(at("nothing"), me); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if me != 0 { // root's files are taken from everybody's directory
		if _, err := Open(at("file"), me+1); err == nil {
			t.Error("a file of somebody else")
		}
		return
	}
	if err := os.Chown(at("file"), 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(at("file"), 12346); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Error(err)
	}
}
