//go:build matrix

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
)

// earlier is the commit of the rayctl that is tried beside this one: the last whose clusters have one token for keeper and Ray.
const earlier = "41a53017"

// TestEarlierRayctl: clients and clusters of an earlier rayctl beside those of this one, in one state directory. A client does everything with an earlier rayctl's cluster; an
// earlier client reads, extends and ends this one's, and is told that the dashboard refuses its token.
func TestEarlierRayctl(t *testing.T) {
	now, before := newUser(t), newUser(t)
	build := exec.Command("scripts/earlier.sh", earlier, before.dir)
	build.Dir = filepath.Join("..", "..") // git archive takes what is below it
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before.rayctl = filepath.Join(before.dir, "rayctl")
	for i, c := range []struct{ makes, uses *user }{{before, now}, {now, before}} {
		t.Run([]string{"NewClient", "EarlierClient"}[i], func(t *testing.T) {
			makes, reader := c.makes.in(t), c.uses.in(t)
			done, live := fmt.Sprintf("done-%d", i), fmt.Sprintf("live-%d", i)
			makes.want(3, "run", "--launcher", "local", "--name", done, "--", "sh", "-c", "echo printed; exit 3")
			makes.want(0, "up", "--launcher", "local", live)
			contains(t, "ls", reader.want(0, "ls").out, live, "Ready")
			contains(t, "the record's output", reader.want(0, "logs", done).out, "printed")
			contains(t, "the record", reader.want(0, "status", done).out, "the driver exited with code 3")
			contains(t, "history", reader.want(0, "history").out, done)
			contains(t, "extended", reader.want(0, "extend", live, "+1h").out, "ends at")
			if c.uses == now {
				contains(t, "a job", reader.want(0, "submit", live, "--", "echo", "hello").out, "hello")
				contains(t, "exec", reader.want(0, "exec", live, "--", "python", "-c", "import ray; ray.init(); print('connected')").out, "connected")
			} else {
				contains(t, "a job", reader.want(77, "submit", live, "--", "echo", "hello").err, "refused the token")
			}
			reader.want(0, "down", live)
		})
	}
}
