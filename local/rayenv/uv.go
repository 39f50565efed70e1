package rayenv

import (
	"archive/zip"
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

// uvVersion is the uv that rayctl brings where none is on PATH.
const uvVersion = "0.13.9"

// uvWheels are the SHA-256 sums of its wheels on PyPI: Linux with glibc and musl on amd64, Linux on arm64, macOS on arm64 and amd64.
var uvWheels = []string{
	"d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
	"2c45530751517d6c3bbc69a19473f6effe47cce047bede01ffd8af7ea7b36b25",
	"5435c5ce14a56431208ca0996416d310f1598e8c2c8ba707688985a16bb82dbe",
	"66c512266d633bef48384a1f53003f41f2a8e7b36fe6e7fbfd3e0fd52d96fa63",
	"c16ed11e013557536b3e60065f1b912f6407bd6518e041b961e23ef9e6b4fbf5",
}

//go:embed pip.py
var pipProgram string

// installer is what installs packages: uv, or pip where path is empty.
type installer struct {
	path string
	env  []string // variables beside the user's
}

// installer returns uv: the user's from PATH, or the one that rayctl brings once into its cache, with pip's settings (index, certificates, proxy). Where the
// user forbids uv, or it cannot be brought, pip installs; the user is told why.
func (m managed) installer(ctx context.Context) installer {
	if !m.uv {
		return installer{}
	}
	if onPath, err := exec.LookPath("uv"); err == nil {
		return installer{path: onPath}
	}
	if m.cacheDir == "" || m.python.Path == "" {
		return installer{}
	}
	tool, err := m.bringUv(ctx)
	if err != nil && ctx.Err() == nil {
		m.progress(fmt.Sprintf("pip installs, which takes longer than uv: %v", err))
	}
	return tool
}

// bringUv returns the cached uv, which it fetches first from pip's index if it must.
func (m managed) bringUv(ctx context.Context) (installer, error) {
	path := filepath.Join(m.cacheDir, "uv-"+uvVersion, "uv")
	settings, err := m.pipSettings(ctx)
	if err != nil {
		return installer{}, err
	}
	env, err := uvVariables(settings, os.LookupEnv)
	if err != nil {
		return installer{}, err
	}
	if _, err := os.Stat(path); err != nil {
		m.progress("fetching uv " + uvVersion + ", which installs faster than pip (once; kept in " + filepath.Dir(path) + ")")
		if err := m.fetchUv(ctx, path); err != nil {
			return installer{}, fmt.Errorf("uv %s cannot be fetched: %w", uvVersion, err)
		}
	}
	return installer{path: path, env: env}, nil
}

// pip runs pip.py in the environment's Python.
func (m managed) pip(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, m.python.Path, append([]string{"-I", "-c", pipProgram}, args...)...)
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
func (m managed) pipSettings(ctx context.Context) (map[string]string, error) {
	out, err := m.pip(ctx, "settings")
	if err != nil {
		return nil, fmt.Errorf("pip's settings cannot be read: %w", err)
	}
	settings := map[string]string{}
	if err := json.Unmarshal(out, &settings); err != nil {
		return nil, fmt.Errorf("pip's settings cannot be read: %w", err)
	}
	return settings, nil
}

// fetchUv downloads the wheel of uv with pip, compares its checksum, and puts the program at path.
func (m managed) fetchUv(ctx context.Context, path string) error {
	if err := trust.MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), "download-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := m.pip(ctx, "download", dir, "uv=="+uvVersion); err != nil {
		return err
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "uv-*.whl"))
	if err != nil || len(wheels) != 1 {
		return fmt.Errorf("pip downloaded %d wheels of it (%w)", len(wheels), err)
	}
	return unpackUv(wheels[0], path, uvWheels)
}

// unpackUv takes the program uv out of a wheel that has one of the checksums.
func unpackUv(wheel, path string, sums []string) error {
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
	program, err := archive.Open("uv-" + uvVersion + ".data/scripts/uv")
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
		if _, set := lookup(variable); set || variable == "" || value == "" {
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
