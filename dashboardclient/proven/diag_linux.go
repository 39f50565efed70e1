package proven

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketID names a socket for the kernel (struct inet_diag_sockid).
type socketID struct {
	LocalPort, RemotePort [2]byte // big-endian
	Local, Remote         [16]byte
	Interface             uint32
	Cookie                [2]uint32
}

// question is about one socket (struct inet_diag_req_v2).
type question struct {
	Header                          unix.NlMsghdr
	Family, Protocol, Extensions, _ uint8
	States                          uint32
	ID                              socketID
}

// answer is about one socket (struct inet_diag_msg).
type answer struct {
	Family, State, Timer, Retransmits uint8
	ID                                socketID
	Expires, ReceiveQueue, SendQueue  uint32
	User, Inode                       uint32
}

// established is the state of a TCP socket that neither end has closed (tcp_states.h in Linux).
const established = 1

// answers: this kernel has told of a socket. One without the module tcp_diag answers to each question that there is no such socket.
var answers atomic.Bool

var errNoAnswer = errors.New("the kernel's answer is not about a socket")

// owner is the user whose process has the socket with these addresses, its own first; known is false if there is no such socket, or if no process has it: none has
// accepted it yet, or its program has closed it.
func owner(local, remote netip.AddrPort) (uid int, known bool) {
	if local.Addr().IsLinkLocalUnicast() { // such a socket has a network interface, too
		return tabled(local, remote)
	}
	a, err := ask(local, remote)
	if errors.Is(err, unix.ENOENT) && answers.Load() {
		return 0, false
	}
	if err != nil {
		return tabled(local, remote)
	}
	answers.Store(true)
	// Where there is no such socket, the kernel tells of the one that listens there. Before accept(2) the inode is 0.
	return int(a.User), a.Inode != 0 && a.local() == local && a.remote() == remote
}

// ask asks the kernel for one socket (sock_diag(7)), which it finds without a search through all of them. Any user may, for sockets of any user.
func ask(local, remote netip.AddrPort) (*answer, error) {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(s) }()
	q := question{
		Header: unix.NlMsghdr{Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST},
		Family: unix.AF_INET6, Protocol: unix.IPPROTO_TCP, States: 1<<32 - 1,
		ID: socketID{Cookie: [2]uint32{1<<32 - 1, 1<<32 - 1}}, // none
	}
	if local.Addr().Is4() {
		q.Family = unix.AF_INET
	}
	copy(q.ID.Local[:], local.Addr().AsSlice())
	copy(q.ID.Remote[:], remote.Addr().AsSlice())
	binary.BigEndian.PutUint16(q.ID.LocalPort[:], local.Port())
	binary.BigEndian.PutUint16(q.ID.RemotePort[:], remote.Port())
	q.Header.Len = uint32(binary.Size(q))
	text, err := binary.Append(nil, binary.NativeEndian, q)
	if err != nil {
		return nil, err
	}
	if err := unix.Sendto(s, text, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	text = make([]byte, 4096)
	n, from, err := unix.Recvfrom(s, text, unix.MSG_DONTWAIT) // the kernel has answered before the question's system call returned
	if err != nil {
		return nil, err
	}
	if kernel, ok := from.(*unix.SockaddrNetlink); !ok || kernel.Pid != 0 {
		return nil, errNoAnswer
	}
	return read(text[:n])
}

// read takes apart the kernel's message.
func read(text []byte) (*answer, error) {
	var header unix.NlMsghdr
	size, err := binary.Decode(text, binary.NativeEndian, &header)
	if err != nil {
		return nil, err
	}
	switch header.Type {
	case unix.NLMSG_ERROR:
		var number int32
		if _, err := binary.Decode(text[size:], binary.NativeEndian, &number); err != nil {
			return nil, err
		}
		return nil, syscall.Errno(-number)
	case unix.SOCK_DIAG_BY_FAMILY:
		a := &answer{}
		_, err := binary.Decode(text[size:], binary.NativeEndian, a)
		return a, err
	}
	return nil, errNoAnswer
}

func (a *answer) local() netip.AddrPort  { return a.address(a.ID.Local, a.ID.LocalPort) }
func (a *answer) remote() netip.AddrPort { return a.address(a.ID.Remote, a.ID.RemotePort) }

// address is one of an answer; an IPv4 address is one, also where the socket is of IPv6.
func (a *answer) address(ip [16]byte, port [2]byte) netip.AddrPort {
	address := netip.AddrFrom16(ip).Unmap()
	if a.Family == unix.AF_INET {
		address = netip.AddrFrom4([4]byte(ip[:4]))
	}
	return netip.AddrPortFrom(address, binary.BigEndian.Uint16(port[:]))
}

// closed tells whether the other end has closed or reset the connection.
func closed(conn net.Conn) bool {
	system, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := system.SyscallConn()
	if err != nil {
		return true // here, by its owner
	}
	state := uint8(established)
	err = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			state = info.State
		}
	})
	return err != nil || state != established
}
