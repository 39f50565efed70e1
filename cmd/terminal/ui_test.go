package terminal

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
)

// TestTransfer: the progress of a transfer is shown once it takes long; on a terminal not for each piece.
func TestTransfer(t *testing.T) {
	for name, test := range map[string]struct {
		tty   bool
		total int64
		every time.Duration
		want  string
		times int // number of reports
	}{
		"short":                   {false, 100e6, time.Millisecond, "", 0},
		"plain":                   {false, 100e6, 200 * time.Millisecond, "sending: 6.0 MB of 100 MB\nsending: 56 MB of 100 MB\n", 2},
		"plain, no total":         {false, 0, 200 * time.Millisecond, "sending: 6.0 MB\nsending: 56 MB\n", 2},
		"terminal":                {true, 100e6, 200 * time.Millisecond, "sending: 6.0 MB of 100 MB (1.0 s)", 95},
		"terminal, in many parts": {true, 100e6, 20 * time.Millisecond, "sending: 51 MB of 100 MB (1.0 s)", 10},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			s := &Streams{Err: &stderr, ErrTTY: test.tty}
			u := NewUI(s, func(string) string { return "" })
			defer u.Close()
			now := time.Unix(0, 0)
			s.Now = func() time.Time { return now }
			for done := int64(1e6); done <= 100e6; done += 1e6 {
				u.Transfer(launcher.Progress{Text: "sending", Done: done, Total: test.total})
				now = now.Add(test.every)
			}
			u.Clear()
			if said := stderr.String(); !strings.Contains(said, test.want) || strings.Count(said, "sending") != test.times {
				t.Errorf("told %d times: %q", strings.Count(said, "sending"), said)
			}
		})
	}
}
