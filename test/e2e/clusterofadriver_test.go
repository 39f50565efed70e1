package e2e

import (
	"slices"
	"testing"
)

// TestClusterOfADriver: a cluster that a driver launches outlives its run, like one launched from a shell.
func TestClusterOfADriver(t *testing.T) {
	u := newUser(t)
	u.env = append(u.env, "RAYCTL="+home.rayctl, "INNER="+u.python)
	defer u.do("down", "inner", "--now")
	out := u.want(0, "run", "--name", "outer", "--workers", "1", "--cpus-per-worker", "1", "--", "sh", "-c", `RAYCTL_RAY_PYTHON="$INNER" "$RAYCTL" up inner --workers 1 --cpus-per-worker 1 && echo launched`).out
	contains(t, "the driver's output", out, "launched")
	list := decode[[]struct{ Name, Phase string }](t, u.want(0, "ls", "-o", "json").out)
	list = slices.DeleteFunc(list, func(c struct{ Name, Phase string }) bool { return c.Name == "shared" }) // other tests' cluster
	if len(list) != 1 || list[0].Name != "inner" || list[0].Phase != "Ready" {
		t.Errorf("clusters after the run: %+v", list)
	}
	contains(t, "a job on it", u.want(0, "submit", "inner", "-q", "--", "echo", "still", "here").out, "still here")
}
