package keeperzip_test

import (
	"os"
	"os/exec"
	"testing"
)

// The keeper's lives in virtual time, against models of what it meets (keeper/sim): each seed is another one.
func TestLives(t *testing.T) {
	simulated(t, "--lives", "400", "--seed", "1")
}

// Each bug of keeper/sim/planted.py spoils the life of its seed: these lives see what they are there to see.
func TestPlanted(t *testing.T) {
	simulated(t, "--check-planted")
}

func simulated(t *testing.T, arguments ...string) {
	t.Helper()
	t.Parallel()
	cmd := exec.Command("python3", append([]string{"sim"}, arguments...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
