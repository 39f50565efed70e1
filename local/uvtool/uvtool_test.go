package uvtool

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// TestUvWheels: what pip would take on each system is a wheel whose checksum rayctl knows.
func TestUvWheels(t *testing.T) {
	t.Parallel()
	for _, platform := range []string{
		"manylinux_2_17_x86_64", "manylinux_2_17_aarch64", "musllinux_1_1_x86_64", "musllinux_1_1_aarch64", "macosx_11_0_arm64", "macosx_10_12_x86_64",
	} {
		t.Run(platform, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("python3", "-I", "-m", "pip", "install", "-q", "--dry-run", "--report", "-", "--target", t.TempDir(), "--platform", platform, "--no-deps", "--only-binary=:all:", "uv=="+Version)
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			var report struct {
				Install []struct {
					Download struct {
						Archive struct {
							Hashes map[string]string `json:"hashes"`
						} `json:"archive_info"`
					} `json:"download_info"`
				} `json:"install"`
			}
			if err := json.Unmarshal(out, &report); err != nil || len(report.Install) != 1 {
				t.Fatalf("%v: %s", err, out)
			}
			if sum := report.Install[0].Download.Archive.Hashes["sha256"]; !slices.Contains(wheels, sum) {
				t.Errorf("its wheel has SHA-256 %q", sum)
			}
		})
	}
}

// wheelOf is a wheel of uv whose program prints who it is.
func wheelOf(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, text := range map[string]string{
		"uv-" + Version + ".data/scripts/uv":    "#!/bin/sh\necho uv of this index\n",
		"uv-" + Version + ".dist-info/METADATA": "Metadata-Version: 2.1\nName: uv\nVersion: " + Version + "\n",
		"uv-" + Version + ".dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-any\n",
		"uv-" + Version + ".dist-info/RECORD":   "",
	} {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// indexWith is a package index that has this wheel of uv alone, for who knows the password; it counts the downloads.
func indexWith(t *testing.T, wheel []byte, downloads *atomic.Int32) (url string) {
	t.Helper()
	name := "uv-" + Version + "-py3-none-any.whl"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case user != "me" || password != "hidden":
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/simple/uv/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<a href='/files/%s'>%s</a>", name, name)
		case r.URL.Path == "/files/"+name:
			downloads.Add(1)
			_, _ = w.Write(wheel)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "http://", "http://me:hidden@", 1) + "/simple"
}

// TestUvOfTheIndex: the wheel comes from the index that pip uses, by its file or variable, or else from the one that is set for uv.
func TestUvOfTheIndex(t *testing.T) {
	for _, name := range []string{"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UV_INDEX_URL", "UV_DEFAULT_INDEX"} {
		t.Setenv(name, "") // it comes back at the end
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	wheel := wheelOf(t)
	sum := sha256.Sum256(wheel)
	sums := []string{hex.EncodeToString(sum[:])}
	for name, set := range map[string]func(t *testing.T, index string){
		"pip.conf": func(t *testing.T, index string) {
			t.Helper()
			file := filepath.Join(t.TempDir(), "pip.conf")
			if err := os.WriteFile(file, []byte("[global]\nindex-url = "+index+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PIP_CONFIG_FILE", file)
			t.Setenv("UV_INDEX_URL", "http://127.0.0.1:9/simple") // nobody listens there
		},
		"PIP_INDEX_URL":    func(t *testing.T, index string) { t.Helper(); t.Setenv("PIP_INDEX_URL", index) },
		"UV_INDEX_URL":     func(t *testing.T, index string) { t.Helper(); t.Setenv("UV_INDEX_URL", index) },
		"UV_DEFAULT_INDEX": func(t *testing.T, index string) { t.Helper(); t.Setenv("UV_DEFAULT_INDEX", "corp="+index) },
	} {
		t.Run(name, func(t *testing.T) {
			var downloads atomic.Int32
			set(t, indexWith(t, wheel, &downloads))
			s, program := Source{Python: python}, filepath.Join(t.TempDir(), "a 'b' ü", "uv")
			settings, err := s.pipSettings(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			env := indexOfUv(settings, os.Getenv)
			if err := s.fetch(t.Context(), program, sums, env); err != nil || downloads.Load() != 1 {
				t.Fatalf("%d downloads, %v", downloads.Load(), err)
			}
			if out, err := exec.Command(program).CombinedOutput(); err != nil || string(out) != "uv of this index\n" {
				t.Errorf("%v: %s", err, out)
			}
			another := filepath.Join(t.TempDir(), "uv")
			if err := s.fetch(t.Context(), another, wheels, env); err == nil || !strings.Contains(err.Error(), "than PyPI") || strings.Contains(err.Error(), "hidden") {
				t.Errorf("another program under its name: %v", err)
			}
			if _, err := os.Stat(another); err == nil {
				t.Error("it was unpacked")
			}
		})
	}
}

// TestAnotherWheel: what the index gives under uv's name is run only if it is what PyPI has.
func TestAnotherWheel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wheel, program := filepath.Join(dir, "uv.whl"), filepath.Join(dir, "uv")
	if err := os.WriteFile(wheel, []byte("something else"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unpack(wheel, program, wheels); err == nil || !strings.Contains(err.Error(), "has another uv.whl than PyPI") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(program); err == nil {
		t.Error("the program was unpacked")
	}
}

func TestUvVariables(t *testing.T) {
	t.Parallel()
	none := func(string) (string, bool) { return "", false }
	for name, test := range map[string]struct {
		settings map[string]string
		lookup   func(string) (string, bool)
		want     []string
	}{
		"none":  {nil, none, nil},
		"index": {map[string]string{"index-url": "https://u:p@a/simple", "retries": "3", "cert": "/c"}, none, []string{"SSL_CERT_FILE=/c", "UV_DEFAULT_INDEX=https://u:p@a/simple"}},
		"lists": {map[string]string{"extra-index-url": "\nhttps://b\nhttps://c", "find-links": "/w https://d"}, none,
			[]string{"UV_INDEX=https://b https://c", "UV_INDEX_STRATEGY=unsafe-best-match", "UV_FIND_LINKS=/w,https://d"}},
		"the user's":          {map[string]string{"index-url": "https://a"}, func(name string) (string, bool) { return "x", name == "UV_DEFAULT_INDEX" }, nil},
		"the user's, as ever": {map[string]string{"index-url": "https://a"}, func(name string) (string, bool) { return "x", name == "UV_INDEX_URL" }, nil},
	} {
		if got, err := uvVariables(test.settings, test.lookup); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := uvVariables(map[string]string{"only-binary": ":all:"}, none); err == nil {
		t.Error("a setting that uv has not was dropped")
	}
}
