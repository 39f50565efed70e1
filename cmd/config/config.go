// Package config finds the configuration of a command and puts its layers together: flags over RAYCTL_* variables over the profile
// that was chosen over the cluster file over the profile named default over defaults. It remembers where each value came from.
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

	"github.com/rayctl/rayctl/kuberay/manifest"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Options say what Load starts from. The zero value is a command without flags in the current directory.
type Options struct {
	// Flags are the command's flags, among them those of AddSelection or AddSpec; nil: none.
	Flags *pflag.FlagSet
	// Dir is the current directory: where the search for the file begins and what paths in flags are relative to. "": the process'.
	Dir string
	// Entrypoint replaces job.entrypoint: the words after -- as one shell command.
	Entrypoint string
	// Up fills in the limits of clusters that `up` leaves behind (spec.DefaultUp).
	Up bool
	// SkipValidation is for commands that only need to know where clusters are.
	SkipValidation bool
	// Stdin is read for -f -; nil: os.Stdin.
	Stdin io.Reader
}

// Loaded is the configuration of a command.
type Loaded struct {
	// Spec has defaults filled in and its launcher chosen.
	Spec *spec.ClusterSpec
	// Origins say where values came from; see Values.
	Origins Origins
	// File is the cluster file as it was named or found; "" if there is none.
	File string
	// Files are all that were read, as they were named or found: File, and the user's configuration.
	Files []string
	// Profile is the chosen profile, "default" if that applied without being chosen, or "".
	Profile string
	// Reason says which launcher was chosen and why: "slurm, because rayctl.yaml has a slurm: section".
	Reason string
	// Warnings are sentences for the user that are no errors.
	Warnings []string
	// Manifest is set when the file is a RayCluster or RayJob; Spec has it as kuberay.rayCluster and job.
	Manifest *manifest.Manifest
}

// Load puts the layers together, fills in defaults and validates. Errors of the configuration are spec.Errors or *spec.Error with file
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
	sections := sectionsOf(l.doc)
	if err := l.setScalars(); err != nil {
		return nil, err
	}
	if err := l.setFlags(); err != nil {
		return nil, err
	}
	return l.finish(sections)
}

// loader holds what Load's steps hand on.
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
	l.v = v
	return l, nil
}

// finish decodes the merged document, chooses the launcher, and checks the result.
func (l *loader) finish(sections sections) (*Loaded, error) {
	s, err := l.doc.Decode()
	if err != nil {
		return nil, err
	}
	l.out.Spec, l.out.Origins = s, l.doc.Origins()
	if err := l.chooseLauncher(s, sections); err != nil {
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
	}
	return l.out, nil
}

// ReadJobFiles reads the files of this machine that the job is described in: requirements and conda environments. Commands that start the job call it before
// anything else happens; those that only look for clusters do not need the files.
func (l *Loaded) ReadJobFiles() error { return l.Origins.Locate(l.Spec.Job.ReadFiles()) }

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

// short names a file relative to the current directory where that is shorter.
func (l *loader) short(p string) string {
	if rel, err := filepath.Rel(l.dir, p); err == nil && len(rel) < len(p) && !strings.HasPrefix(rel, "../../..") {
		return rel
	}
	return p
}
