package measure

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"
)

// measureLatency measures the time from a driver's print to its line on the screen.
func measureLatency(ctx context.Context, b *Bench) ([]Row, error) {
	var today, ours []float64
	err := b.both(ctx, "latency", "clock.py", AddLatency(&today), AddLatency(&ours))
	if err != nil {
		return nil, err
	}
	return []Row{Compare("line printed by the driver to line shown, median", Seconds, today, ours, 0.15, "")}, nil
}

// AddLatency adds one run's median over its lines.
func AddLatency(to *[]float64) func(*Done) error {
	return func(d *Done) error {
		var late []float64
		d.Output.lines(func(line []byte, at time.Time) {
			text, ours := bytes.CutPrefix(line, []byte("printed "))
			if printed, err := strconv.ParseFloat(string(text), 64); ours && err == nil {
				late = append(late, float64(at.UnixNano())/1e9-printed)
			}
		})
		if len(late) == 0 {
			return fmt.Errorf("no line was shown: %q", d.Output.Data)
		}
		*to = append(*to, Median(late))
		return nil
	}
}

// following has the results of showing a million lines.
type following struct {
	whole, shown []float64 // seconds: of the command, and from the first line to the last
	lost         int       // runs that did not show every byte
}

const manyLines = 1_000_000

func (f *following) add(d *Done) error {
	next, wrong := 0, false
	var first, last time.Time
	want := make([]byte, 0, 16)
	d.Output.lines(func(line []byte, at time.Time) {
		if !bytes.HasPrefix(line, []byte("line ")) {
			return // from the command line itself
		}
		if next == 0 {
			first = at
		}
		want = strconv.AppendInt(append(want[:0], "line "...), int64(next), 10)
		wrong = wrong || !bytes.Equal(line, want)
		next++
		last = at
	})
	if wrong || next != manyLines {
		f.lost++
	}
	f.whole, f.shown = append(f.whole, d.wall), append(f.shown, last.Sub(first).Seconds())
	return nil
}

func (f *following) bytes() string {
	if f.lost == 0 {
		return ", all bytes"
	}
	return fmt.Sprintf(", bytes missing in %d of %d", f.lost, len(f.whole))
}

// measureLines follows a million lines.
func measureLines(ctx context.Context, b *Bench) ([]Row, error) {
	var today, ours following
	if err := b.both(ctx, "lines", "lines.py", today.add, ours.add); err != nil {
		return nil, err
	}
	shown := Compare("one million lines followed live, first to last line shown", Seconds, today.shown, ours.shown, 1, "at most 1.0 s, all bytes")
	shown.Today += today.bytes()
	shown.Rayctl += ours.bytes()
	if ours.lost > 0 {
		shown.Met = Yes(false)
	}
	whole := Row{"the whole of that command", Figures(today.whole, Seconds), Figures(ours.whole, Seconds), "", ""}
	return []Row{shown, whole}, nil
}

// measureLongLine checks whether a line of 10 MB arrives.
func measureLongLine(ctx context.Context, b *Bench) ([]Row, error) {
	var today, ours long
	if err := b.both(ctx, "longline", "longline.py", today.add, ours.add); err != nil {
		return nil, err
	}
	return []Row{{"10 MB line", today.text(), ours.text(), "whole", Yes(ours.whole == ours.runs)}}, nil
}

// long counts the runs of one side, and those that showed the whole line of 10 MB.
type long struct{ whole, runs int }

const longLine = 10_000_000

func (l *long) add(d *Done) error {
	longest := 0
	d.Output.lines(func(line []byte, _ time.Time) { // Ray's command line adds lines of its own
		if len(bytes.Trim(line, "x")) == 0 {
			longest = max(longest, len(line))
		}
	})
	l.runs++
	if longest == longLine {
		l.whole++
	}
	return nil
}

func (l *long) text() string {
	if l.whole == l.runs {
		return "whole"
	}
	return fmt.Sprintf("lost in %d of %d", l.runs-l.whole, l.runs)
}
