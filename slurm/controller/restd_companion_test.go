package controller

import (
	"os/exec"
	"strings"
	"testing"
)

// TestScriptWithArguments: slurmrestd gets a batch script that has its arguments in it, whatever they are.
func TestScriptWithArguments(t *testing.T) {
	arguments := []string{"/r/a b/it's $(id)", "b-0", "\"`1`\\", ""}
	text := withArguments("#!/bin/bash\n#SBATCH --nodes=1\nprintf '%s|' \"$@\"\n", arguments)
	cmd := exec.Command("bash", "-s", "others")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if want := strings.Join(arguments, "|") + "|"; err != nil || string(out) != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
	if !strings.HasPrefix(text, "#!/bin/bash\n") {
		t.Error(text)
	}
	for signal, want := range map[string]int{"B:USR1@60": 60, "B:USR1@22.5": 22, "": 0} {
		if got := warningOf(signal); got != want {
			t.Errorf("%s: %d", signal, got)
		}
	}
}
