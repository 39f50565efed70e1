package main

import (
	"strings"
	"testing"
	"time"
)

// TestBook: time and work are charged to running tests, not to those that wait for their turn or for their subtests.
func TestBook(t *testing.T) {
	b := newBook()
	busy, now := b.busy, b.at
	pass := func(seconds, work float64) {
		busy, now = busy+work, now.Add(time.Duration(seconds*float64(time.Second)))
		b.spend(busy, now)
	}
	b.take(event{Action: "run", Package: "p", Test: "A"})
	b.take(event{Action: "run", Package: "p", Test: "A/one"})
	pass(10, 4)
	b.take(event{Action: "run", Package: "p", Test: "B"})
	pass(20, 10)
	b.take(event{Action: "pause", Package: "p", Test: "B"})
	b.take(event{Action: "output", Package: "p", Test: "A/one", Output: "why\n"})
	b.take(event{Action: "fail", Package: "p", Test: "A/one"})
	pass(1, 1)
	if one := b.costs[test{"p", "A/one"}]; one.wall != 30*time.Second || one.cpu != 9 {
		t.Errorf("A/one: %+v", one)
	}
	if two := b.costs[test{"p", "B"}]; two.wall != 20*time.Second || two.cpu != 5 {
		t.Errorf("B: %+v", two)
	}
	if own := b.costs[test{"p", "A"}]; own.wall != time.Second || own.cpu != 1 {
		t.Errorf("A itself: %+v", own)
	}
	var out strings.Builder
	b.print(&out)
	for _, want := range []string{"    51.0       15.0  p\n", "    31.0       10.0  p A\n", "FAIL p A/one\nwhy\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
}
