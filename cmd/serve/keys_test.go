package serve

import (
	"encoding/json"
	"os/exec"
	"slices"
	"testing"

	"github.com/rayctl/rayctl/test/raytest"
)

// TestServeKeys: the table has every key of Serve's schema in the Ray versions that are tested.
func TestServeKeys(t *testing.T) {
	const schema = `
import json
from ray.serve import schema as s
keys = lambda model: list(getattr(model, "model_fields", None) or model.__fields__)
print(json.dumps({"": keys(s.ServeDeploySchema), "applications": keys(s.ServeApplicationSchema), "deployments": keys(s.DeploymentSchema),
  "ray_actor_options": keys(s.RayActorOptionsSchema), "http_options": keys(s.HTTPOptionsSchema), "grpc_options": keys(s.gRPCOptionsSchema)}))`
	for _, version := range []string{raytest.Ray260, raytest.Ray240, raytest.Ray29} {
		out, err := exec.CommandContext(t.Context(), raytest.Env(t, version), "-c", schema).Output()
		if err != nil {
			t.Fatal(err)
		}
		var models map[string][]string
		if err := json.Unmarshal(out, &models); err != nil || len(models) != len(knownKeys) {
			t.Fatalf("%v: %s", err, out)
		}
		for of, keys := range models {
			for _, key := range keys {
				if !slices.Contains(knownKeys[of], key) {
					t.Errorf("Ray %s has %q in %q", version, key, of)
				}
			}
		}
	}
}
