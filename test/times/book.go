package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, Test, Output string
}

type test struct{ pkg, name string }

// cost is a test's time while it ran.
type cost struct {
	wall time.Duration
	cpu  float64 // seconds
}

// book distributes time among the running tests.
type book struct {
	running map[test]bool
	costs   map[test]*cost
	output  map[test]*strings.Builder
	failed  []test
	busy    float64
	at      time.Time
	begun   time.Time
}

func newBook() *book {
	now := time.Now()
	return &book{running: map[test]bool{}, costs: map[test]*cost{}, output: map[test]*strings.Builder{}, busy: busySeconds(), at: now, begun: now}
}

// spend charges the time since the last call to the running tests; busy is the machine's processor seconds so far.
func (b *book) spend(busy float64, now time.Time) {
	passed, worked := now.Sub(b.at), busy-b.busy
	b.at, b.busy = now, busy
	var mine []test
	for t := range b.running {
		if !b.waitsForSubtests(t) {
			mine = append(mine, t)
		}
	}
	for _, t := range mine {
		if b.costs[t] == nil {
			b.costs[t] = &cost{}
		}
		b.costs[t].wall += passed
		b.costs[t].cpu += worked / float64(len(mine))
	}
}

func (b *book) waitsForSubtests(t test) bool {
	for other := range b.running {
		if other.pkg == t.pkg && strings.HasPrefix(other.name, t.name+"/") {
			return true
		}
	}
	return false
}

// take processes an event.
func (b *book) take(e event) {
	t := test{e.Package, e.Test}
	if t.name == "" {
		return
	}
	switch e.Action {
	case "run", "cont":
		b.running[t] = true
	case "pause":
		delete(b.running, t)
	case "output":
		if b.output[t] == nil {
			b.output[t] = &strings.Builder{}
		}
		b.output[t].WriteString(e.Output)
	case "fail":
		b.failed = append(b.failed, t)
		delete(b.running, t)
	case "pass", "skip":
		delete(b.running, t)
		delete(b.output, t)
	}
}

// print writes the table: packages, then tests with their subtests, longest first.
func (b *book) print(w io.Writer) {
	packages, tests := map[test]*cost{}, map[test]*cost{}
	for t, c := range b.costs {
		top, _, _ := strings.Cut(t.name, "/")
		add(packages, test{pkg: t.pkg}, c)
		add(tests, test{t.pkg, top}, c)
	}
	all := b.at.Sub(b.begun).Seconds()
	fmt.Fprintf(w, "%.0f s in all\n\n%8s %10s  %s\n", all, "seconds", "processor", "of tests that ran at the same time each counts its own seconds")
	for _, p := range sorted(packages) {
		row(w, packages[p], p.pkg)
	}
	fmt.Fprintln(w)
	for _, t := range sorted(tests) {
		if tests[t].wall >= 5*time.Second {
			row(w, tests[t], t.pkg+" "+t.name)
		}
	}
	fmt.Fprintln(w)
	for _, t := range sorted(b.costs) {
		if strings.Contains(t.name, "/") && b.costs[t].wall >= 15*time.Second {
			row(w, b.costs[t], t.pkg+" "+t.name)
		}
	}
	for _, t := range b.failed {
		if out := b.output[t]; out != nil {
			fmt.Fprintf(w, "\nFAIL %s %s\n%s", t.pkg, t.name, out)
		}
	}
}

func add(to map[test]*cost, t test, c *cost) {
	if to[t] == nil {
		to[t] = &cost{}
	}
	to[t].wall += c.wall
	to[t].cpu += c.cpu
}

func row(w io.Writer, c *cost, name string) {
	fmt.Fprintf(w, "%8.1f %10.1f  %s\n", c.wall.Seconds(), c.cpu, name)
}
