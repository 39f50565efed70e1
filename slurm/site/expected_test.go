package site

import (
	"testing"
	"time"
)

func TestExpected(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	if got, want := Expected(soon), "Slurm expects to start it at "+soon.UTC().Format(time.RFC3339); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Expected(time.Now().Add(364*24*time.Hour)), "the expected start is unknown (jobs without a time limit)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
