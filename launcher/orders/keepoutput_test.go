package orders_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestKeepOutput: what a file leaves out has the documented default, and 0 is no default.
func TestKeepOutput(t *testing.T) {
	quantity := func(text string) *spec.Quantity {
		if text == "" {
			return nil
		}
		q := resource.MustParse(text)
		return &q
	}
	for _, c := range []struct {
		one, all         string
		wantOne, wantAll int64
	}{{"", "", 8 << 20, 64 << 20}, {"1Gi", "", 1 << 30, 1 << 30}, {"", "1Mi", 8 << 20, 1 << 20}, {"0", "", 0, 64 << 20}, {"", "0", 8 << 20, 0}, {"1500k", "2M", 1_500_000, 2_000_000}} {
		s := &spec.ClusterSpec{Lifetime: spec.Lifetime{KeepOutput: quantity(c.one), KeepOutputTotal: quantity(c.all)}}
		spec.Default(s)
		if l := orders.Lifetime(s, orders.Start, 0); l.KeepOutput != c.wantOne || l.KeepOutputTotal != c.wantAll {
			t.Errorf("%q and %q: %d and %d, want %d and %d", c.one, c.all, l.KeepOutput, l.KeepOutputTotal, c.wantOne, c.wantAll)
		}
	}
}
