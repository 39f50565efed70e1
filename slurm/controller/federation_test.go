package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParseFederation reads what `scontrol show federation` prints (slurm/src/api/federation_info.c, 24.11); TestLimits/Federation asks a real one.
func TestParseFederation(t *testing.T) {
	for out, want := range map[string]Federation{
		"": {},
		"Federation: both\n" +
			"Self:       testbed:10.77.0.1:6817 ID:1 FedState:ACTIVE Features:\n" +
			"Sibling:    sibling:10.77.0.1:6827 ID:2 FedState:ACTIVE Features:a,b PersistConnSend/Recv:Yes/Yes Synced:Yes\n" +
			"Sibling:    far::0 ID:3 FedState:DRAIN Features: PersistConnSend/Recv:No/No Synced:No\n": {Name: "both", Self: "testbed", Siblings: []string{"sibling", "far"}},
	} {
		if diff := cmp.Diff(want, parseFederation(out)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestIsFederated(t *testing.T) {
	for id, want := range map[int]bool{1: false, 0x03ff0000: false, 1<<26 + 1: true, 1<<31 + 5: true} {
		if IsFederated(id) != want {
			t.Errorf("%d: %v", id, !want)
		}
	}
}
