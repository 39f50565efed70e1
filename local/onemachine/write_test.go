package onemachine

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestFullDisk: the sentence names the directory and this machine.
func TestFullDisk(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		err := writeFailed("/state", fmt.Errorf("write: %w", number))
		if launcher.ExitCode(err) != runstate.CodeStartFailed || !strings.Contains(err.Error(), "no space is left for /state on "+name) {
			t.Errorf("%v: %v", number, err)
		}
	}
}
