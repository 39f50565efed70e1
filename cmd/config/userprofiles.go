package config

import (
	"maps"
	"slices"

	"github.com/rayctl/rayctl/launcher/spec"
)

// Profile is a profile of the user's configuration, which applies in every directory.
type Profile struct {
	Name string
	// Applies is true for the one that --profile or RAYCTL_PROFILE names, and for the one named default.
	Applies bool
	// Launcher is the launcher that the profile chooses itself; "" if it chooses none, or its sections are those of several.
	Launcher string
	// Chooses is true if the profile has a launcher, or a section that chooses one.
	Chooses bool
	// Spec is what the profile sets, over the one named default, without defaults.
	Spec *spec.ClusterSpec
}

// Profiles lists the profiles of the user's configuration by name. It reads no cluster file.
func Profiles(opts Options) ([]Profile, error) {
	l, err := newLoader(opts)
	if err != nil {
		return nil, err
	}
	set, err := l.profiles()
	if err != nil {
		return nil, err
	}
	var out []Profile
	for _, name := range slices.Sorted(maps.Keys(set)) {
		p, err := set.profile(name)
		if err != nil {
			return nil, err
		}
		p.Applies = name == DefaultProfile || name == l.v.GetString(keyProfile)
		out = append(out, p)
	}
	return out, nil
}

// profile is the profile with this name, which the set has.
func (ps profileSet) profile(name string) (Profile, error) {
	p, own := Profile{Name: name}, sectionsOf(ps[name])
	alone, err := ps[name].Decode()
	if err != nil {
		return p, err
	}
	p.Launcher, p.Chooses = spec.LauncherCalled(alone.Launcher), alone.Launcher != "" || len(own) > 0
	if p.Launcher == "" && len(own) == 1 {
		p.Launcher = slices.Collect(maps.Keys(own))[0]
	}
	doc := spec.NewDocument()
	if base := ps.get(DefaultProfile); base != nil {
		doc.Merge(base)
	}
	doc.Merge(ps[name])
	p.Spec, err = doc.Decode()
	return p, err
}
