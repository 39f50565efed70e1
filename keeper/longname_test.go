//go:build linux

package keeperzip_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/test/needs"
)

// onLongName asks for the address of a host whose name is as long as Linux allows. No name service has such a name, and Python has no error of the network for it.
const onLongName = `import socket, sys
socket.sethostname("h" * 64)
sys.path.insert(0, sys.argv[1])
from rayctl_keeper.host import address
assert address.node() == "h" * 64 and address.by_name() == [], (address.node(), address.by_name())
print(address.own(several=False))
`

// TestLongHostName: the keeper finds its address there. The host is one of its own, in a UTS namespace.
func TestLongHostName(t *testing.T) {
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	eachPython(t, func(t *testing.T, python string) {
		cmd := exec.Command(python, "-E", "-s", "-B", "-c", onLongName, here)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUTS}
		if id := os.Geteuid(); id != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
		}
		out, err := cmd.CombinedOutput()
		needs.That(t, !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.ENOSPC), "needs a UTS namespace: %v", err)
		if err != nil || net.ParseIP(strings.TrimSpace(string(out))) == nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}
