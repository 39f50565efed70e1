package driverio_test

import (
	"testing"

	"github.com/rayctl/rayctl/launcher/driverio"
)

// TestDirectory: what InDirectory writes is read back.
func TestDirectory(t *testing.T) {
	for _, dir := range []string{"/root/st1/proj", "/a b/c'd/$e", ""} {
		for _, optional := range []bool{true, false} {
			if got := driverio.Directory(driverio.InDirectory(dir, "python a.py", optional)); got != dir {
				t.Errorf("%q is read as %q", dir, got)
			}
		}
	}
}
