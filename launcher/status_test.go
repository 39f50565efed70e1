package launcher_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestGPUsAreCounted follows a keeper's GPU counts through status and result to the receipt.
func TestGPUsAreCounted(t *testing.T) {
	var st runstate.State
	document := `{"name": "a", "groups": [{"name": "head", "ready": 1, "wanted": 1, "gpus": 0}, {"name": "trainer", "ready": 1, "wanted": 2, "gpus": 4}]}`
	if err := json.Unmarshal([]byte(document), &st); err != nil {
		t.Fatal(err)
	}
	s := launcher.StatusOf(&st)
	if g := s.Groups[1]; g != (runstate.Group{Name: "trainer", Ready: 1, Wanted: 2, GPUs: 4}) {
		t.Errorf("%+v", g)
	}
	s.Created = time.Unix(100, 0)
	s.Timeline = []runstate.Event{{At: s.Created, Kind: "phase", To: string(runstate.Provisioning)}}
	s.Since, s.Phase = s.Created.Add(10*time.Second), runstate.Gone
	u := launcher.NewReceipt(launcher.NewResult(s, launcher.LogInfo{}, nil)).Usage
	if u.Nodes != 3 || u.GPUs != 8 || u.GPUSeconds != 80 {
		t.Errorf("%+v", u)
	}
}
