package proven_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/rayctl/rayctl/dashboardclient/proven"
)

// A name service answers 127.0.0.1 and then fails: a host that was reached by name is reached again.
func TestNameServiceAway(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	service := nameService(t)
	var away atomic.Bool
	dialer := &proven.Dialer{Dialer: net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if away.Load() {
			return nil, errors.New("connection refused")
		}
		return (&net.Dialer{}).DialContext(ctx, "udp", service)
	}}}}
	_, port, _ := net.SplitHostPort(server.Addr().String())
	reach := func(name string) error {
		conn, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(name, port))
		if err != nil {
			return err
		}
		return conn.Close()
	}
	if err := reach("head.rayctl.test."); err != nil {
		t.Fatalf("with a name service: %v", err)
	}
	away.Store(true)
	if err := reach("head.rayctl.test."); err != nil {
		t.Errorf("without: %v", err)
	}
	var failure *net.DNSError
	if err := reach("other.rayctl.test."); !errors.As(err, &failure) {
		t.Errorf("a name that was never reached: %v", err)
	}
}

// nameService is a DNS server that gives every name the address 127.0.0.1.
func nameService(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return // closed
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response = true
			m.Additionals = nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}
				m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}
