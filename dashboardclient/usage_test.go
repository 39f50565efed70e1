package dashboardclient

import "testing"

func TestCamelCase(t *testing.T) {
	for name, want := range map[string]string{ // from a real dashboard of 2.60.0
		"object_store_memory": "objectStoreMemory", "node:__internal_head__": "node:InternalHead", "CPU": "CPU",
		"node_d3dabda3d37e7bb9": "nodeD3Dabda3D37E7Bb9", "memory": "memory",
	} {
		if got := camelCase(name); got != want {
			t.Errorf("%s becomes %s, not %s", name, got, want)
		}
	}
}
