package jobs

import "testing"

// TestSplit: what a job has waited for is told apart where it is worth a word, and is never more than the whole.
func TestSplit(t *testing.T) {
	for want, seconds := range map[string][2]float64{
		"2.0 s from the submission to the end": {2, 0.9},
		"12 s from the submission to the end: 8.0 s before the driver began (packages, free CPUs and GPUs), 4.0 s of the driver":  {12, 8},
		"3.0 s from the submission to the end: 3.0 s before the driver began (packages, free CPUs and GPUs), 0.0 s of the driver": {3, 5},
	} {
		if got := split(seconds[0], seconds[1]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
