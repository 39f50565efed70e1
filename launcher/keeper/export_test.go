package keeper

import "testing"

// LongestState bounds state documents for the rest of a test, so that a loaded machine reads one that is too long within callTimeout.
func LongestState(t *testing.T, bytes int64) {
	was := longestState
	longestState = bytes
	t.Cleanup(func() { longestState = was })
}
