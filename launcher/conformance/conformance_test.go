package conformance

import (
	"slices"
	"testing"

	"github.com/rayctl/rayctl/launcher"
)

// A launcher's tests have to name the scenarios for which its substrate has no feature.
func TestConfigAccountsForEveryScenario(t *testing.T) {
	of := Config{
		Elastic: true, Occupy: func(*testing.T) func() { return nil }, FreezeDashboard: func(*testing.T, launcher.ID) func() { return nil },
		Without: map[string]string{"early head": "there are none", "driver that ends Ray": "no node is alone", "queue limit": "there is no queue", "no such": ""}, Plain: []string{"idel"},
	}
	want := []string{
		`there is no scenario "no such"`, `there is no scenario "idel"`,
		`"name service away for a minute" does not run, and neither Without nor Elsewhere says why`,
		`"early head and driver" does not run, and neither Without nor Elsewhere says why`,
		`Without names "queue limit", which the substrate has the feature for`,
	}
	if got := of.mistakes(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
