package e2e

import (
	"context"
	"os"
	"os/exec"
	"testing"
)

// TestEnv checks that Ray's own tools work.
func TestEnv(t *testing.T) {
	u := sharedCluster(t)
	u.want(0, "submit", "shared", "-q", "--submission-id", "seen-by-ray", "--", "true")
	script := `before=$PATH; (eval "$("$RAYCTL" env shared)"; unset RAY_API_SERVER_ADDRESS RAY_ADDRESS RAY_AUTH_MODE RAY_AUTH_TOKEN_PATH; python -c '
import os, subprocess
exec(subprocess.check_output([os.environ["RAYCTL"], "env", "shared", "--python"], text=True))
import ray
ray.init(log_to_driver=False)
print("python sees", len(ray.nodes()))') && eval "$("$RAYCTL" env shared)" && eval "$("$RAYCTL" env shared)" && ray job list && ray status && python -c '
import ray
ray.init(log_to_driver=False)
print("nodes", len(ray.nodes()))' && eval "$("$RAYCTL" env --unset)" && [ "$PATH" = "$before" ] && echo "left:$RAY_ADDRESS$RAY_API_SERVER_ADDRESS" &&
! { eval "$("$RAYCTL" env nosuch)" && echo wrong; }`
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", script)
	c.Dir, c.Env = u.dir, environment(u.python, "RAYCTL="+home.rayctl)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	contains(t, "the output", string(out), "seen-by-ray", "python sees 2", "nodes 2", "left:\n", "/4.0 CPU")
	vars := decode[map[string]string](t, u.want(0, "env", "shared", "-o", "json").out)
	info, err := os.Stat(vars["RAY_AUTH_TOKEN_PATH"])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token's file: %v, %v", info, err)
	}
}
