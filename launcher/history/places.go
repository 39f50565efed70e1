// Package history is what this machine has seen of clusters: where it launched them (Places), and how they ended (Receipts).
package history

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rayctl/rayctl/launcher/sharedfile"
	"github.com/rayctl/rayctl/launcher/spec"
)

// placesKept is the number of launches that are remembered.
const placesKept = 200

// fresh is how long commands without a name look for a cluster whose end this machine has not seen.
const fresh = 7 * 24 * time.Hour

// Places remember where this machine launched clusters, so that later commands find them although no flag and no file names their launcher: a directory with a
// file for each launch; "" remembers nothing. What cannot be read or written is as if it had not been remembered: the cluster is found with --launcher all the
// same.
type Places struct{ Dir string }

// launch is one file.
type launch struct {
	At    time.Time `json:"at"`
	Ended bool      `json:"ended"`
	// From is the cluster file, or without one the directory in which the command ran; "" for launches of older versions.
	From string `json:"from,omitempty"`
	// Where has the launcher and its section, and nothing else of the cluster.
	Where *spec.ClusterSpec `json:"where"`
}

// Remember notes where a cluster is launched, and from which cluster file ("": from none).
func (p Places) Remember(s *spec.ClusterSpec, file string, now time.Time) error {
	return p.write(s.Name, launch{At: now, From: origin(file), Where: placeOf(s)})
}

// origin is what From has for a cluster file.
func origin(file string) string {
	path, err := filepath.Abs(file) // of "": the working directory
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// FromElsewhere reports whether the cluster of this name is remembered as launched from another cluster file, and from another directory than that of file.
func (p Places) FromElsewhere(name, file string) bool {
	l, ok := p.read(name)
	here := origin(file)
	return ok && l.From != "" && l.From != here && l.From != filepath.Dir(here)
}

// Ended notes that Living need not name the cluster's place any more.
func (p Places) Ended(name string) error {
	l, ok := p.read(name)
	if !ok || l.Ended {
		return nil
	}
	l.Ended = true
	return p.write(name, l)
}

// Has reports whether a launch of this name is remembered.
func (p Places) Has(name string) bool {
	_, ok := p.read(name)
	return ok
}

// MayLive reports whether the last launch of this name is remembered, and not its end.
func (p Places) MayLive(name string) bool {
	l, ok := p.read(name)
	return ok && !l.Ended
}

// At is where the cluster of this name was launched: a spec with a launcher and its section. It is nil if that is not remembered.
func (p Places) At(name string) *spec.ClusterSpec {
	l, ok := p.read(name)
	if !ok {
		return nil
	}
	return l.Where
}

// Of is where the cluster of this name was launched: a spec with a launcher and its section. It is nil if that is where s is, or not remembered.
func (p Places) Of(name string, s *spec.ClusterSpec) *spec.ClusterSpec {
	where := p.At(name)
	if where == nil || samePlace(where, placeOf(s)) {
		return nil
	}
	return where
}

// Living is, for each launcher that is not among these, where the last cluster was launched that may still live.
func (p Places) Living(now time.Time, launchers ...string) []*spec.ClusterSpec {
	var places []*spec.ClusterSpec
	for _, name := range p.names() {
		l, ok := p.read(name)
		if ok && !l.Ended && now.Sub(l.At) < fresh && !slices.Contains(launchers, l.Where.Launcher) {
			launchers, places = append(launchers, l.Where.Launcher), append(places, l.Where)
		}
	}
	return places
}

// placeOf is what distinguishes the launcher of a cluster from others.
func placeOf(s *spec.ClusterSpec) *spec.ClusterSpec {
	where := &spec.ClusterSpec{Launcher: s.Launcher}
	if section, ok := s.Sections[s.Launcher]; ok {
		where.Sections = spec.Sections{s.Launcher: section}
	}
	return where
}

func samePlace(x, y *spec.ClusterSpec) bool {
	one, err := json.Marshal(x)
	other, err2 := json.Marshal(y)
	return err == nil && err2 == nil && bytes.Equal(one, other)
}

// names are the clusters of which something is remembered, the last launched first.
func (p Places) names() []string {
	if p.Dir == "" {
		return nil
	}
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		return nil
	}
	at := func(e os.DirEntry) time.Time {
		if info, err := e.Info(); err == nil {
			return info.ModTime()
		}
		return time.Time{}
	}
	slices.SortFunc(entries, func(x, y os.DirEntry) int { return at(y).Compare(at(x)) })
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (p Places) read(name string) (l launch, ok bool) {
	if p.Dir == "" || spec.CheckName(name) != nil {
		return l, false
	}
	data, err := os.ReadFile(filepath.Join(p.Dir, name))
	if err != nil || json.Unmarshal(data, &l) != nil {
		return l, false
	}
	return l, l.Where != nil
}

func (p Places) write(name string, l launch) error {
	if p.Dir == "" {
		return nil
	}
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if err := sharedfile.Write(filepath.Join(p.Dir, name), data, 0o600); err != nil {
		return err
	}
	if names := p.names(); len(names) > placesKept {
		for _, old := range names[placesKept:] {
			if err := os.Remove(filepath.Join(p.Dir, old)); err != nil {
				return err
			}
		}
	}
	return nil
}
