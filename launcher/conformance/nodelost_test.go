package conformance

import "testing"

// TestSavedEnough: a noted gap excuses what is missing there, and no more.
func TestSavedEnough(t *testing.T) {
	const whole, shown = "1\n2\n3\n4\n", "1\n2\n3\n"
	const own = 7 // bytes of Ray's before the driver's
	for name, c := range map[string]struct {
		saved   string
		missing [][2]int64
		want    bool
	}{
		"all":                       {whole, nil, true},
		"what was shown":            {shown, nil, true},
		"too little":                {"1\n", nil, false},
		"another line":              {"1\n2\n4\n", nil, false},
		"the end is missing":        {"1\n2\n", [][2]int64{{own + 4, -1}}, true},
		"less than up to the gap":   {"1\n", [][2]int64{{own + 4, -1}}, false},
		"a line behind the end":     {shown, [][2]int64{{own + 4, -1}}, false},
		"a line is missing":         {"1\n3\n", [][2]int64{{own + 2, own + 4}}, true},
		"more than that":            {"1\n", [][2]int64{{own + 2, own + 4}}, false},
		"a place, nothing missing":  {"1\n", [][2]int64{{own + 2, own + 2}}, false},
		"empty":                     {"", nil, false},
		"empty, all noted":          {"", [][2]int64{{0, -1}}, true},
		"empty, a gap at its begin": {"", [][2]int64{{own, own + 2}}, false},
	} {
		if got := savedEnough(whole, shown, c.saved, own, c.missing); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
