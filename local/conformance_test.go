package local_test

import (
	"testing"

	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/test/onemachinetest"
)

func TestConformance(t *testing.T) {
	c := onemachinetest.Conformance(t)
	c.Patience = patience
	c.Without["queue limit"] = "nodes start at once, there is no queue"
	c.Elsewhere = map[string]string{
		"keeper killed before the gang is there": "tsp", // the same code of local/onemachine
		"keeper killed while preparing":          "slurm",
		"early head":                             "slurm", // "early head and driver" starts the same nodes in the same order
		"interrupt twice":                        "TestCtrlCTwice",
	}
	conformance.Run(t, c)
}
