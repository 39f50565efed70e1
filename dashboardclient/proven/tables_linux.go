package proven

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// tables has the sockets of this machine that a server for IPv4, or for both protocols, has accepted (proc(5)).
var tables = []string{"/proc/net/tcp", "/proc/net/tcp6"}

// tabled is owner for kernels that do not answer questions about one socket. Each call reads all sockets of the machine.
func tabled(local, remote netip.AddrPort) (uid int, known bool) {
	for _, table := range tables {
		text, err := os.ReadFile(table)
		if err != nil {
			continue // a kernel without IPv6
		}
		for _, wanted := range []string{row(local, remote), row(mapped(local), mapped(remote))} {
			_, rest, found := strings.Cut(string(text), wanted)
			rest, _, _ = strings.Cut(rest, "\n")
			f := strings.Fields(rest) // state, queues, timer, retransmits, uid, timeout, inode: before accept(2) uid and inode are 0
			if !found || len(f) < 7 || f[6] == "0" {
				continue
			}
			if uid, err := strconv.Atoi(f[4]); err == nil {
				return uid, true
			}
		}
	}
	return 0, false
}

// mapped is the same address as a server for both protocols has it.
func mapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16(a.Addr().As16()), a.Port())
}

// row is how the line of a socket with these addresses begins, after its number.
func row(local, remote netip.AddrPort) string { return " " + word(local) + " " + word(remote) + " " }

// word is an address as the tables have it: words of the machine's byte order, in hexadecimal digits.
func word(a netip.AddrPort) string {
	var out strings.Builder
	for b := a.Addr().AsSlice(); len(b) > 0; b = b[4:] {
		fmt.Fprintf(&out, "%08X", binary.NativeEndian.Uint32(b))
	}
	return fmt.Sprintf("%s:%04X", out.String(), a.Port())
}
