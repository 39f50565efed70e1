//go:build linux

package slurm_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/needs"
)

// smallDisk makes a file system that a test can fill.
func smallDisk(t *testing.T) string {
	t.Helper()
	needs.Root(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=3m,mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes all space of the disk, until free.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, zeroes{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk does not get full: %v", err)
	}
	_ = f.Close()
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// at is the testbed with another slurm.dir.
func (b *bed) at(dir string) *bed {
	other := *b
	other.beside.Dir = dir
	return &other
}

// fullDisk: there is no room for a launch.
func (b *bed) fullDisk(t *testing.T, disk string) {
	b = b.at(disk)
	free := fill(t, disk)
	defer free()
	_, err := b.launcher().Launch(t.Context(), b.named("full", "echo never"), launcher.Payload{})
	for what, err := range map[string]error{"Launch": err, "Validate": b.launcher().Validate(t.Context(), b.named("full", "echo never"), launcher.Payload{DryRun: true})} {
		if launcher.ExitCode(err) != runstate.CodeStartFailed || !strings.Contains(err.Error(), "no space is left") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v (code %d)", what, err, launcher.ExitCode(err))
		}
	}
	b.nothingLeft(t, "full")
}

// diskFills: a disk that fills while the driver runs does not cost its exit code. A client that watches misses only the output that neither reached
// it before the end nor could be saved, and reports that.
func (b *bed) diskFills(t *testing.T, disk string) {
	b = b.at(disk)
	g := b.gate(t)
	r := b.begin(t, b.named("fills", "echo begun; "+g.wait()+"; seq 200000; exit 3"), launcher.Payload{})
	r.until("running", jobRuns)
	free := fill(t, disk)
	g.open()
	receipt := r.ended(3, "driver-failed", "code 3")
	free()
	var text strings.Builder
	text.WriteString("begun\n")
	for i := range 200000 {
		text.WriteString(strconv.Itoa(i+1) + "\n")
	}
	all, out := text.String(), r.out.String()
	if !strings.HasPrefix(all, out) || !strings.HasPrefix(out, "begun\n") || out != all && len(receipt.Log.Missing) == 0 {
		t.Errorf("%d of %d bytes of output were seen, ending with %q; missing: %v", len(out), len(all), out[max(0, len(out)-20):], receipt.Log.Missing)
	}
	if receipt.Exit.Origin != runstate.OriginDriver {
		t.Errorf("exit: %+v", receipt.Exit)
	}
	r.forgotten()
}
