package runstate_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestAllocations: what is asked for before there is a keeper has the id that the keeper gives it, and nothing is held by a cluster that has ended.
func TestAllocations(t *testing.T) {
	at, later := time.Unix(100, 0), time.Unix(200, 0)
	groups := []runstate.Group{{Name: "head", Wanted: 1}, {Name: "w", Wanted: 3, Min: 2, Max: 5}, {Name: "e", Min: 0, Max: 4}}
	first := runstate.Asked(nil, groups, false, at)
	if a := first[0]; len(first) != 1 || a.ID != "main.1" || a.State != "queued" || !reflect.DeepEqual(a.Groups, map[string]int{"head": 1, "w": 2}) || !a.Queued.Equal(at) {
		t.Errorf("%+v", first)
	}
	second := runstate.Asked(first, groups, false, later)
	if a := second[0]; len(second) != 2 || second[1].ID != "main.2" || a.State != "released" || a.Granted != nil || !a.Released.Equal(later) {
		t.Errorf("%+v", second)
	}
	if first[0].Released != nil {
		t.Error("the earlier list was changed")
	}
	early := runstate.Asked(nil, groups, true, at)
	if a := early[0]; a.ID != "head.1" || a.Purpose != runstate.PurposeHead || !reflect.DeepEqual(a.Groups, map[string]int{"head": 1}) {
		t.Errorf("%+v", early)
	}
	if all := runstate.Of(second, runstate.PurposeMain); len(all) != 2 || len(runstate.Of(second, runstate.PurposeGang)) > 0 {
		t.Errorf("%+v", all)
	}
}
