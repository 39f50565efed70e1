package e2e

import (
	"testing"
)

// TestInit writes files that run, and overwrites none.
func TestInit(t *testing.T) {
	u := newUser(t)
	for _, template := range []string{"basic", "grpo", "train", "serve"} {
		u.want(0, "init", template, "--dir", template)
		u.want(64, "init", template, "--dir", template)
		u.env = []string{"RAYCTL_RAY_PYTHON="}
		command := []string{"render", "-f", template + "/rayctl.yaml"}
		if template == "serve" {
			command = append(command, "--up")
			contains(t, "the template, as Serve asks for no password,", u.read("serve/serve.yaml"), "http_options:\n  host: 127.0.0.1 ")
		}
		contains(t, "render", u.want(0, command...).out, "orders.json")
		u.env = nil
	}
	u.write("hand/start.sh", "#!/bin/bash\nset -e\nexport SEED=7 WHO='you there'\nport=6379\nray start --head --port=$port --num-cpus=1\nsleep 5\nSTEPS=3\npython hand/main.py --steps $STEPS\nray stop\n")
	u.write("hand/main.py", "import os, sys, ray\nray.init()\nprint(sys.argv[1:], os.environ['SEED'], ray.get(ray.remote(lambda: os.environ['WHO']).remote()))\n")
	u.want(0, "init", "--from", "hand/start.sh", "--dir", "hand")
	contains(t, "the run of a script that started Ray by hand", u.want(0, "run", "-f", "hand/rayctl.yaml").out, "['--steps', '3'] 7 you there")
	u.dir += "/grpo"
	contains(t, "the run", u.want(0, "run").out, "step 39 reward")
}
