package observe

import "testing"

func TestSameOwner(t *testing.T) {
	for _, test := range []struct {
		x, y string
		same bool
	}{
		{"ann@laptop", "ann@laptop", true}, {"ann@laptop", "ann@login1", true}, {"ann@laptop", "bob@laptop", false}, {"root@pod-1", "root@pod-2", false},
		{"root@vm", "root@vm", true}, {"", "ann@laptop", true}, {"an", "ann@laptop", false},
	} {
		if SameOwner(test.x, test.y) != test.same || SameOwner(test.y, test.x) != test.same {
			t.Errorf("%q and %q: %v", test.x, test.y, !test.same)
		}
	}
}
