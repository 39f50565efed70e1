package controller

import "testing"

// TestCancellingUser reads answers of sacct of Slurm 24.11.
func TestCancellingUser(t *testing.T) {
	for _, c := range []struct {
		out, uid string
		late     bool
	}{
		{"CANCELLED by 1001\n", "1001", false},
		{"CANCELLED by 0\n", "0", false},
		{"COMPLETED\nCANCELLED by 1001\n", "1001", false},
		{"CANCELLED\n", "", false},
		{"PENDING\n", "", true},
		{"RUNNING\n", "", true},
		{"TIMEOUT\n", "", false},
		{"", "", false}, // of a job that accounting does not have
	} {
		if uid, late := cancellingUser(c.out); uid != c.uid || late != c.late {
			t.Errorf("%q: %q, %v", c.out, uid, late)
		}
	}
}
