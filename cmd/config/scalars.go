package config

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/environ"
)

// Keys of viper that are no keys of the cluster file.
const (
	keyFile    = "file"
	keyProfile = "profile"
	keyConfig  = "config"
)

// newViper binds every key with a single value to its variable and, if it has one, its flag.
func newViper(flags *pflag.FlagSet) (*viper.Viper, error) {
	v := viper.New()
	bind := func(key, env, flag string) error {
		if err := v.BindEnv(key, env); err != nil {
			return fmt.Errorf("bind %s: %w", env, err)
		}
		if f := lookup(flags, flag); f != nil {
			if err := v.BindPFlag(key, f); err != nil {
				return fmt.Errorf("bind --%s: %w", flag, err)
			}
		}
		return nil
	}
	for _, k := range spec.Keys() {
		if err := bind(k.Path, k.Env, FlagOf(k.Path)); err != nil {
			return nil, err
		}
	}
	for _, k := range []struct{ key, env string }{{keyFile, environ.File}, {keyProfile, environ.Profile}, {keyConfig, environ.Config}} {
		if err := bind(k.key, k.env, k.key); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// origin returns the flag or the variable that viper has a key from.
func (l *loader) origin(key string) spec.Origin {
	flag := FlagOf(key)
	if flag == "" {
		flag = key
	}
	if f := lookup(l.opts.Flags, flag); f != nil && f.Changed {
		return spec.Origin{Source: "--" + flag, Dir: l.dir}
	}
	return spec.Origin{Source: environ.Prefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_")), Dir: l.dir}
}

// setScalars sets single keys from flags and variables, on top of the files.
func (l *loader) setScalars() error {
	for _, k := range spec.Keys() {
		if !l.v.IsSet(k.Path) {
			continue
		}
		if o := l.origin(k.Path); o.Source == k.Env && l.out.Manifest.Decides(k.Path) {
			l.out.Warnings = append(l.out.Warnings, fmt.Sprintf("%s is not used: %s decides %s itself", k.Env, l.out.Manifest.File, k.Path))
			continue
		}
		if err := l.doc.Set(k.Path, l.v.GetString(k.Path), l.origin(k.Path)); err != nil {
			return err
		}
	}
	return nil
}

// testEnv is the prefix of the variables for rayctl's own tests.
const testEnv = environ.Prefix + "TEST_"

// checkEnv finds unknown RAYCTL_* variables: an error if one looks like a mistyped key, else a warning.
func (l *loader) checkEnv() error {
	known := environ.Reserved()
	for _, v := range environ.Client() {
		known = append(known, v.Name)
	}
	for _, k := range spec.Keys() {
		known = append(known, k.Env)
	}
	var unknown []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, environ.Prefix) && !strings.HasPrefix(name, testEnv) && !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		if near := nearestEnv(name, known); near != "" {
			return &spec.Error{File: name, Msg: "this variable is unknown", Hint: "did you mean " + near + "?"}
		}
		l.out.Warnings = append(l.out.Warnings, fmt.Sprintf("the variable %s is unknown and ignored: `rayctl help variables` lists those that count", name))
	}
	return nil
}

// nearestEnv compares names without RAYCTL_, the common prefix that would make all of them similar.
func nearestEnv(name string, known []string) string {
	rest := make([]string, len(known))
	for i, k := range known {
		rest[i] = strings.TrimPrefix(k, environ.Prefix)
	}
	if near := spec.Nearest(strings.TrimPrefix(name, environ.Prefix), rest); near != "" {
		return environ.Prefix + near
	}
	return ""
}
