package onemachine

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSpilled: only a directory that is named as the node's own is taken for that of its spilled objects.
func TestSpilled(t *testing.T) {
	node := filepath.Join(t.TempDir(), "r12345678")
	if err := os.Mkdir(node, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := spilled(node); got != "" {
		t.Errorf("without a link: %q", got)
	}
	for target, want := range map[string]string{"/home/ann": "", "/disk/r12345678": "/disk/r12345678"} {
		link := filepath.Join(node, "s")
		os.Remove(link)
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		if got := spilled(node); got != want {
			t.Errorf("a link to %s: %q", target, got)
		}
	}
}
