// Package config makes the configuration of a command in two steps. Merge makes one document of its layers: flags over RAYCTL_* variables over the chosen
// profile over the cluster file over the profile named default. It records the origin of each value. Document.At then chooses the launcher, fills in defaults
// and validates, once for each site.
//
// Flags and variables are viper's. Files are merged by package spec, because viper lowercases the keys of env: and labels:, turns
// version: 3.10 into 3.1 and forgets lines.
package config

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/clientfiles"
)

// Options are the inputs of Load. The zero value is a command without flags in the current directory.
type Options struct {
	// Flags are the command's flags, including those of AddSelection or AddSpec; nil: none.
	Flags *pflag.FlagSet
	// Dir is the current directory: the search for the file begins there, and paths in flags are relative to it. "": the process'.
	Dir string
	// Entrypoint replaces job.entrypoint: the arguments after -- as one shell command.
	Entrypoint string
	// Up fills in the limits of clusters that `up` leaves behind (spec.DefaultUp).
	Up bool
	// SkipValidation is for commands that only need to find clusters.
	SkipValidation bool
	// Stdin is read for -f -; nil: os.Stdin.
	Stdin io.Reader
}

// Loaded is the configuration of a command.
type Loaded struct {
	// Spec has defaults filled in and its launcher chosen.
	Spec *spec.ClusterSpec
	// Origins are the origins of values; see Values.
	Origins Origins
	// File is the cluster file as it was named or found; "" if there is none.
	File string
	// Files are all files read, as named or found: File, and the user's configuration.
	Files []string
	// Profile is the chosen profile, "default" if that applied by default, or "".
	Profile string
	// Reason is why this launcher: "rayctl.yaml has a slurm: section".
	Reason string
	// Warnings are sentences for the user about things that are no errors.
	Warnings []string
	// Manifest is set if the file is of another format; Spec has it as keys of a cluster file.
	Manifest *spec.Manifest

	dir string // of the cluster file, or the current one
}

// On is where clusters of the chosen launcher run: "on this machine".
func (l *Loaded) On() string { return spec.SubstrateOf(l.Spec.Launcher).On }

// Load is both steps, at the site that the document chooses.
func Load(opts Options) (*Loaded, error) {
	d, err := Merge(opts)
	if err != nil {
		return nil, err
	}
	return d.At(Site{})
}

// Document is the layers of a command's configuration, merged.
type Document struct {
	opts     Options
	layers   *spec.Document
	sections sections
	read     Loaded // what is the same at every site
}

// Merge is the first step. Errors of the configuration are spec.Errors or *spec.Error with file and line, flag or variable.
func Merge(opts Options) (*Document, error) {
	l, err := newLoader(opts)
	if err != nil {
		return nil, err
	}
	for _, layer := range []func() error{l.checkEnv, l.readFile, l.mergeFiles, l.mergeRuntimeEnv} {
		if err := layer(); err != nil {
			return nil, err
		}
	}
	sections := sectionsOf(l.doc)
	for _, layer := range []func() error{l.setScalars, l.setFlags, l.addPackages, l.addSecrets} {
		if err := layer(); err != nil {
			return nil, err
		}
	}
	return &Document{opts: l.opts, layers: l.doc, sections: sections, read: *l.out}, nil
}

// Site is a place where clusters run. The zero value is the one that the document chooses.
type Site struct {
	Launcher string
	// Keys are keys of the cluster file, such as the launcher's section, that count where no layer sets them; nil: none.
	Keys *spec.Document
}

// At is the second step: the document at a site, with defaults, and validated unless the options say otherwise. Errors are as those of Merge.
func (d *Document) At(site Site) (*Loaded, error) {
	doc := spec.NewDocument()
	if site.Keys != nil {
		doc.Merge(site.Keys)
	}
	doc.Merge(d.layers)
	s, err := doc.Decode()
	if err != nil {
		return nil, err
	}
	l := d.read
	l.Spec, l.Origins, l.Warnings = s, doc.Origins(), slices.Clone(l.Warnings)
	if err := l.chooseLauncher(site, d.sections); err != nil {
		return nil, err
	}
	if err := d.checkOtherFlags(s.Launcher, site.Launcher != ""); err != nil {
		return nil, err
	}
	l.defaultName()
	if err := d.checkUp(s, l.Origins); err != nil {
		return nil, err
	}
	if d.opts.Up {
		spec.DefaultUp(s)
	}
	spec.Default(s)
	if d.opts.SkipValidation {
		return &l, nil
	}
	if err := spec.Validate(s); err != nil {
		return nil, l.Origins.Locate(err)
	}
	l.Warnings = append(l.Warnings, spec.UnknownRuntimeEnv(&s.Job, l.Origins.of)...)
	if err := l.checkImage(); err != nil {
		return nil, err
	}
	return &l, nil
}

// defaultName names a cluster after the folder of its file.
func (l *Loaded) defaultName() {
	if l.Spec.Name == "" {
		l.Spec.Name = spec.NameFrom(filepath.Base(l.dir))
		l.Origins["name"] = spec.Origin{Source: "the folder's name"}
	}
}

// checkImage refuses --image where nodes do not run in containers. A file may have an image for its other profiles: that is only noted.
func (l *Loaded) checkImage() error {
	s := l.Spec
	if in := spec.SubstrateOf(s.Launcher); s.Image == "" || in.UsesImage != nil && in.UsesImage(s) {
		return nil
	}
	o := l.Origins["image"]
	if o.Source != "--image" {
		l.Warnings = append(l.Warnings, fmt.Sprintf("image (%s) is ignored: the %s launcher runs no containers here", o, s.Launcher))
		return nil
	}
	return flagError(o, "leave it out, or choose another launcher with --launcher; `rayctl help image` says where it is used",
		"the %s launcher runs no containers here, so that the image %q would not be used", s.Launcher, s.Image)
}

// ReadJobFiles reads the files of this machine that describe the job: requirements and conda environments. Commands that start the job call it first.
// Commands that only find clusters do not need the files. elsewhere: the job goes to a cluster that the file does not describe.
func (l *Loaded) ReadJobFiles(elsewhere bool) error {
	nodes := clientfiles.Nodes{Shared: !elsewhere && spec.SharesFilesystem(l.Spec), OldRay: l.Spec.HasOlderRay("2.10.0")}
	return l.Origins.Locate(clientfiles.ReadJob(&l.Spec.Job, l.dir, nodes))
}

// ReadPackages reads the files that describe the environment which the launcher makes for the nodes, if it makes one. Commands that launch call it first, before
// ReadJobFiles. forJob: what pip or uv would install for the job goes into that environment, which is kept for the next run, unless it means something else on the
// nodes.
func (l *Loaded) ReadPackages(forJob bool) error {
	packages := l.environment()
	if packages == nil {
		return nil
	}
	if err := clientfiles.Environment(spec.SubstrateOf(l.Spec.Launcher).PackagesKey, packages); err != nil {
		return l.Origins.Locate(err)
	}
	if !forJob {
		return nil
	}
	for _, job := range []struct {
		key string
		of  *spec.Requirements
	}{{"job.pip", &l.Spec.Job.Pip}, {"job.uv", &l.Spec.Job.Uv}} {
		installed, err := clientfiles.Installed(job.key, *job.of)
		if err != nil {
			return l.Origins.Locate(err)
		}
		if installed != nil {
			packages.Packages = append(packages.Packages, installed...)
			*job.of = spec.Requirements{}
		}
	}
	return nil
}

// MakesEnvironment reports whether the launcher makes the environment of the nodes, in which ReadPackages has it install the packages of a job.
func (l *Loaded) MakesEnvironment() bool { return l.environment() != nil }

// HasPackages reports whether the environment of the nodes may have programs that are not rayctl's own choice.
func (l *Loaded) HasPackages() bool {
	made, j := l.environment(), &l.Spec.Job
	given := func(r *spec.Requirements) bool { return r.File != "" || len(r.Packages) > 0 }
	return made == nil || given(made) || given(&j.Pip) || given(&j.Uv) || len(j.RuntimeEnv) > 0
}

func (l *Loaded) environment() *spec.Requirements {
	if in := spec.SubstrateOf(l.Spec.Launcher); in.Environment != nil {
		return in.Environment(l.Spec)
	}
	return nil
}
