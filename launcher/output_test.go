package launcher

import (
	"context"
	"errors"
	"net"
	"testing"
)

// After its driver's end a head that is being deleted is dialled once; while the driver runs, the head is dialled repeatedly.
func TestHeadIsNotTriedInVain(t *testing.T) {
	tries, a := 0, &attemptLog{}
	dial := a.useful(func(context.Context, string, string) (net.Conn, error) {
		tries++
		return nil, net.ErrClosed
	})
	for range 3 {
		if _, err := dial(t.Context(), "tcp", "head"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("while the driver runs: %v", err)
		}
	}
	a.unreached.Store(false)
	a.ended.Store(true)
	for _, want := range []error{net.ErrClosed, errEnded, errEnded} {
		if _, err := dial(t.Context(), "tcp", "head"); !errors.Is(err, want) {
			t.Errorf("after its end: %v, want %v", err, want)
		}
	}
	if tries != 4 {
		t.Errorf("%d tries, want 4", tries)
	}
}
