package app_test

import (
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
)

// TestTunnelHint: what sshd prints about the session is quoted, and only that of a session counts.
func TestTunnelHint(t *testing.T) {
	for connection, want := range map[string]string{
		"":                             "",
		"10.0.0.1 5000 10.0.0.2":       "",
		"10.0.0.1 5000 x;reboot 22":    "",
		"10.0.0.1 5000 10.0.0.2 22":    "`ssh -N -L 8265:127.0.0.1:8265 'a b@10.0.0.2'`",
		"10.0.0.1 5000 fe80::1%eth0 2": "",
		"::1 5000 ::1 2222":            "`ssh -N -L 8265:127.0.0.1:8265 -p 2222 'a b@::1'`",
	} {
		a, _, _ := apptest.New()
		a.Getenv = func(name string) string { return map[string]string{"SSH_CONNECTION": connection, "USER": "a b"}[name] }
		if got := a.TunnelHint(8265); got != want {
			t.Errorf("%q gives %s, not %s", connection, got, want)
		}
	}
}
