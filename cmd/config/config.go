// Package config finds the configuration of a command and merges its layers: flags over RAYCTL_* variables over the chosen profile
// over the cluster file over the profile named default over defaults. It records the origin of each value.
//
// Flags and variables are viper's. Files are merged by package spec, because viper lowercases the keys of env: and labels:, turns
// version: 3.10 into 3.1 and forgets lines.
package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

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

// Load merges the layers, fills in defaults and validates. Errors of the configuration are spec.Errors or *spec.Error with file
// and line, flag or variable.
func Load(opts Options) (*Loaded, error) {
	l, err := newLoader(opts)
	if err != nil {
		return nil, err
	}
	if err := l.checkEnv(); err != nil {
		return nil, err
	}
	if err := l.readFile(); err != nil {
		return nil, err
	}
	if err := l.mergeFiles(); err != nil {
		return nil, err
	}
	if err := l.mergeRuntimeEnv(); err != nil {
		return nil, err
	}
	sections := sectionsOf(l.doc)
	if err := l.setScalars(); err != nil {
		return nil, err
	}
	if err := l.setFlags(); err != nil {
		return nil, err
	}
	return l.finish(sections)
}

// loader is the state shared by Load's steps.
type loader struct {
	opts Options
	v    *viper.Viper
	dir  string
	out  *Loaded
	file *spec.Document // the cluster file
	doc  *spec.Document // all layers so far
}

func newLoader(opts Options) (*loader, error) {
	l := &loader{opts: opts, dir: opts.Dir, out: &Loaded{}, file: spec.NewDocument(), doc: spec.NewDocument()}
	if l.opts.Flags == nil {
		l.opts.Flags = pflag.NewFlagSet("", pflag.ContinueOnError)
	}
	if l.opts.Stdin == nil {
		l.opts.Stdin = os.Stdin
	}
	if l.dir == "" {
		wd, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("find the current directory: %w", err)
		}
		l.dir = wd
	}
	v, err := newViper(l.opts.Flags)
	if err != nil {
		return nil, err
	}
	l.v, l.out.dir = v, l.dir
	return l, nil
}

// finish decodes the merged document, chooses the launcher, and checks the result.
func (l *loader) finish(sections sections) (*Loaded, error) {
	s, err := l.doc.Decode()
	if err != nil {
		return nil, err
	}
	l.out.Spec, l.out.Origins = s, l.doc.Origins()
	if err := l.setPackages(s); err != nil {
		return nil, err
	}
	if err := l.addSecrets(s); err != nil {
		return nil, err
	}
	if err := l.chooseLauncher(s, sections); err != nil {
		return nil, err
	}
	if err := l.checkOtherFlags(s); err != nil {
		return nil, err
	}
	l.defaultName(s)
	if l.opts.Up {
		spec.DefaultUp(s)
	}
	spec.Default(s)
	if !l.opts.SkipValidation {
		if err := spec.Validate(s); err != nil {
			return nil, l.out.Origins.Locate(err)
		}
		l.out.Warnings = append(l.out.Warnings, spec.UnknownRuntimeEnv(&s.Job, l.out.Origins.of)...)
		if err := l.checkImage(s); err != nil {
			return nil, err
		}
	}
	return l.out, nil
}

// checkImage refuses --image where nodes do not run in containers. A file may have an image for its other profiles: that is only noted.
func (l *loader) checkImage(s *spec.ClusterSpec) error {
	if in := spec.SubstrateOf(s.Launcher); s.Image == "" || in.UsesImage != nil && in.UsesImage(s) {
		return nil
	}
	o := l.out.Origins["image"]
	if o.Source != "--image" {
		l.out.Warnings = append(l.out.Warnings, fmt.Sprintf("image (%s) is ignored: the %s launcher runs no containers here", o, s.Launcher))
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
	for _, of := range []*spec.Requirements{&l.Spec.Job.Pip, &l.Spec.Job.Uv} {
		if installed := clientfiles.Installed(*of); installed != nil {
			packages.Packages = append(packages.Packages, installed...)
			*of = spec.Requirements{}
		}
	}
	return nil
}

// MakesEnvironment reports whether the launcher makes the environment of the nodes, in which ReadPackages has it install the packages of a job.
func (l *Loaded) MakesEnvironment() bool { return l.environment() != nil }

func (l *Loaded) environment() *spec.Requirements {
	if in := spec.SubstrateOf(l.Spec.Launcher); in.Environment != nil {
		return in.Environment(l.Spec)
	}
	return nil
}

// defaultName names a cluster after the folder of its file.
func (l *loader) defaultName(s *spec.ClusterSpec) {
	if s.Name != "" {
		return
	}
	dir := l.dir
	if f := l.out.File; f != "" && f != stdinName {
		dir = filepath.Dir(l.abs(f))
	}
	s.Name = spec.NameFrom(filepath.Base(dir))
	l.out.Origins["name"] = spec.Origin{Source: "the folder's name"}
}

func (l *loader) abs(p string) string {
	if p = spec.ExpandHome(p); filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(l.dir, p)
}

// short makes a file name relative to the current directory if that is shorter.
func (l *loader) short(p string) string {
	if rel, err := filepath.Rel(l.dir, p); err == nil && len(rel) < len(p) && !strings.HasPrefix(rel, "../../..") {
		return rel
	}
	return p
}
