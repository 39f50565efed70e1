package app

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Variables that Ray's clients read.
const (
	rayAddressVariable = "RAY_API_SERVER_ADDRESS"
	olderAddress       = "RAY_ADDRESS"
	headersVariable    = "RAY_JOB_HEADERS"
)

// rayAddress is the dashboard that the environment names, and the variable that names it; "" if none does. RAY_ADDRESS is read as `ray job` does where
// RAY_API_SERVER_ADDRESS is not set, if it is a URL: for other programs it is the GCS of a cluster.
func rayAddress(getenv func(string) string) (address, variable string) {
	if address := getenv(rayAddressVariable); address != "" {
		return address, rayAddressVariable
	}
	address = getenv(olderAddress)
	if strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://") {
		return address, olderAddress
	}
	return "", ""
}

// rayConfig is how the dashboard at an address is reached. variable is what named the address, "" for a flag; verify is the value of --verify.
func rayConfig(address, variable, verify string, getenv func(string) string) (dashboardclient.Config, error) {
	if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return dashboardclient.Config{}, notRayAddress(address, variable)
	}
	token, err := rayToken(getenv)
	if err != nil {
		return dashboardclient.Config{}, err
	}
	headers, err := rayHeaders(getenv(headersVariable))
	if err != nil {
		return dashboardclient.Config{}, err
	}
	trust, err := rayVerified(verify)
	if err != nil {
		return dashboardclient.Config{}, err
	}
	return dashboardclient.Config{URL: address, Source: variable, Token: token, Headers: headers, TLS: trust}, nil
}

// notRayAddress leaves out an address that may hold a password.
func notRayAddress(address, variable string) error {
	const hint = "give it like http://127.0.0.1:8265"
	if strings.Contains(address, "@") {
		address = "(not shown)"
	}
	if variable != "" {
		return launcher.Fail(runstate.CodeConfig, nil, hint, "%s is %q, which is not the address of a dashboard", variable, address)
	}
	return launcher.Fail(runstate.CodeUsage, nil, hint, "%q is not the address of a dashboard", address)
}

// rayToken finds the token that Ray's own tools would send.
func rayToken(getenv func(string) string) (string, error) {
	if token := strings.TrimSpace(getenv("RAY_AUTH_TOKEN")); token != "" {
		return token, nil
	}
	path := getenv("RAY_AUTH_TOKEN_PATH")
	fallback := path == ""
	if fallback {
		path = filepath.Join(getenv("HOME"), ".ray", "auth_token")
	}
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		return strings.TrimSpace(string(data)), nil
	case fallback:
		return "", nil
	default:
		return "", launcher.Fail(runstate.CodeConfig, err, "correct it, or set RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH: %v", err)
	}
}

// rayHeaders parses RAY_JOB_HEADERS. Its errors have nothing of the values, which are secrets.
func rayHeaders(text string) (http.Header, error) {
	if text == "" {
		return nil, nil
	}
	fail := func(format string, args ...any) (http.Header, error) {
		return nil, launcher.Fail(runstate.CodeConfig, nil, `write it like {"X-Team": "rl"}`, headersVariable+" "+format, args...)
	}
	var values map[string]any
	if err := json.Unmarshal([]byte(text), &values); err != nil || values == nil {
		return fail("is not a JSON object of HTTP headers")
	}
	out := http.Header{}
	for name, value := range values {
		text, isText := value.(string)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return fail("has %q, which cannot be the name of an HTTP header", name)
		case !isText || !httpguts.ValidHeaderFieldValue(text):
			return fail("has a value of %s that cannot be sent: it is not text of one line", name)
		}
		out.Set(name, text)
	}
	return out, nil
}

// rayVerified is what certificates are checked against: nil for the system's own authorities.
func rayVerified(verify string) (*tls.Config, error) {
	switch strings.ToLower(verify) { // as `ray job` reads it
	case "", "true", "1":
		return nil, nil
	case "false", "0":
		return &tls.Config{InsecureSkipVerify: true}, nil
	}
	pool, err := rayAuthorities(verify)
	const hint = "give true, false, or a file or directory of certificates in PEM"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, launcher.Fail(runstate.CodeUsage, err, hint, "--verify: %q does not exist", verify)
	case err != nil:
		return nil, launcher.Fail(runstate.CodeUsage, err, hint, "--verify: %v", err)
	case pool == nil:
		return nil, launcher.Fail(runstate.CodeUsage, nil, hint, "--verify: %q has no certificate", verify)
	}
	return &tls.Config{RootCAs: pool}, nil
}

// rayAuthorities reads certificates from a file, or from all files of a directory; nil if there are none.
func rayAuthorities(path string) (*x509.CertPool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*")); err != nil {
			return nil, err
		}
	}
	pool, found := x509.NewCertPool(), false
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			if st, serr := os.Stat(file); serr == nil && st.IsDir() {
				continue
			}
			return nil, err
		}
		found = pool.AppendCertsFromPEM(data) || found
	}
	if !found {
		return nil, nil
	}
	return pool, nil
}
