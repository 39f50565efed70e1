package e2e

import (
	"strings"
	"testing"
)

// TestKeptPackages: the packages of a run on this machine are in the environment that rayctl makes, for the driver and for tasks, and the second run has it already. A
// driver that misses a module is told of that.
func TestKeptPackages(t *testing.T) {
	u := exampleUser(t)
	u.write("requirements.txt", "-r more.txt\ntoolz==1.0.0\n")
	u.write("more.txt", "iniconfig==2.0.0 \\\n    --hash=sha256:b6a85871a79d2e3b22d2d1b94ac2824226a63c6b741c88f7ae975f18b6778374\n")
	u.write("main.py", "import iniconfig, ray\nray.init()\n@ray.remote\ndef place():\n    import toolz\n    return toolz.__file__\n"+
		"for path in (iniconfig.__file__, ray.get(place.remote())):\n    print('/rayctl/envs/ray-' in path or path)\n")
	contains(t, "the hint", u.want(1, "run", "--", "python", "-c", "import toolz").err, "`-r requirements.txt` installs what that file lists once, for all runs with it")
	for range 2 {
		r := u.want(0, "run", "-r", "requirements.txt", "--", "python", "main.py")
		if !strings.HasSuffix(r.out, "\nTrue\nTrue\n") { // Ray has told where it connects
			t.Errorf("places %q", r.out)
		}
	}
	second := u.want(0, "run", "-r", "requirements.txt", "--dry-run", "--", "python", "main.py").err
	if strings.Contains(second, "Python environment") {
		t.Errorf("it would be made again: %s", second)
	}
}
