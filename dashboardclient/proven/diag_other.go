//go:build !linux

package proven

import (
	"net"
	"net/netip"
)

func owner(netip.AddrPort, netip.AddrPort) (uid int, known bool) { return 0, false }

func closed(net.Conn) bool { return false }
