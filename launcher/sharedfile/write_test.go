package sharedfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rayctl/rayctl/launcher/sharedfile"
)

// TestModeIsOurs: a secret that replaces a file readable by others is not readable by them.
func TestModeIsOurs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a 'b' é")
	if err := os.WriteFile(path, []byte("old and longer"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := sharedfile.Write(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "new" || info.Mode() != 0o600 {
		t.Errorf("%q with mode %v, %v", text, info.Mode(), err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left beside it: %v", left)
	}
}

func TestNothingIsLeftOfAFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := sharedfile.Write(path, []byte("new"), 0o600); err == nil {
		t.Error("a directory was replaced by a file")
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left beside it: %v", left)
	}
}
