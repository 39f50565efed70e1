package dump

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	_ "github.com/rayctl/rayctl/slurm/slurmspec"
)

// TestSecretsAreRemoved plants secrets in each form and place in which texts have them, and looks for them in the whole archive, also in base64.
func TestSecretsAreRemoved(t *testing.T) {
	const token, hostile, pem = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0", "s3cr3t $(id) '\"<é>&" + "1234", "-----BEGIN PRIVATE KEY-----\nMIIEvAIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----"
	const byEnvironment, byName, byCommand = "environments-own-value", "hf_byname-abcdefgh", "value-of-an-option"
	t.Setenv("TEAM_AUTH", byEnvironment)
	a := New(false)
	a.Secret(token, hostile)
	a.Secret(pem)
	a.Environment([]string{"WANDB_API_KEY=" + byCommand, "MODE_TOKEN=on"})
	a.Spec(&spec.ClusterSpec{Name: "dev", Secrets: []spec.Secret{{Name: "TEAM_AUTH"}, {Name: "NOWHERE"}}, Env: map[string]string{"HF_TOKEN": byName, "TOKENIZERS_PARALLELISM": "true"}})
	add := func(name, text string) { a.Add(name, []byte(text), int64(len(text))) }
	wrapped := base64.StdEncoding.EncodeToString([]byte(`{"token": "` + token + "\", \"more\": \"" + strings.Repeat("x", 40) + "\"}"))
	for before := range 4 {
		code := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("u", before) + token + ":x"))
		add("base64.txt", "Authorization: Basic "+code+"\nsecret in a Secret's data "+code+"\n"+base64.URLEncoding.EncodeToString([]byte(strings.Repeat("u", before)+hostile)))
	}
	add("wrapped.txt", wrapped[:76]+"\n"+wrapped[76:152]+"\n"+wrapped[152:]+"\n")
	quoted, err := json.Marshal(map[string]any{"message": hostile, "env": []any{map[string]any{"name": "DB_PASSWORD", "value": "in-a-pods-spec"}}, "token": "in-a-document"})
	if err != nil {
		t.Fatal(err)
	}
	add("pods.json", string(quoted))
	add("escaped.txt", "again in-a-pods-spec, "+url.QueryEscape(hostile)+" "+url.PathEscape(hostile)+"\n"+strings.ReplaceAll(pem, "\n", "\n    "))
	add("by-form.txt", "GET / Authorization: Bearer abc.def-ghi_jkl~mno\nbearer zyxwvutsrqponm\nhttps://me:passw0rd-in-url@host/x\nNOWHERE=a-value-that-nobody-knows\n"+
		`{"api_key": "quoted-key", 'password': 'two words', \"MY_TOKEN\": \"escaped-one\"}`+"\n--api-key option-of-a-command --secret=other-option\nhf_abcdefghijklmnopqrstuvwxyz\neyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl\n")
	add("nodes/"+token+"/"+token+".log", "raw "+token+" and "+byEnvironment+" and "+byName+" and "+byCommand)
	a.Missing("a thing with "+token, errors.New("refused: "+hostile))
	all := unpacked(t, a)
	inside := strconv.Quote(hostile)
	for _, secret := range []string{
		inside[1 : len(inside)-1], token, hostile, byEnvironment, byName, byCommand, "MIIEvAIBADANBgkq", "hkiG9w0BAQEFAASC", "in-a-pods-spec", "in-a-document", "abc.def-ghi", "zyxwvu", "passw0rd", "a-value-that-nobody-knows", "quoted-key", "two words",
		"escaped-one", "option-of-a-command", "other-option", "hf_abcdef", "eyJhbGci", url.QueryEscape(hostile), url.PathEscape(hostile), wrapped[20:70], wrapped[80:100],
	} {
		if strings.Contains(all, secret) {
			t.Errorf("%q is in the archive", secret)
		}
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			for _, secret := range []string{token, hostile} {
				code := encoding.EncodeToString([]byte(strings.Repeat("u", before) + secret))
				if part := code[4 : len(code)-4]; strings.Contains(all, part) {
					t.Errorf("%q is in the archive in base64, %d bytes before it", secret, before)
				}
			}
		}
	}
	for _, stays := range []string{"TOKENIZERS_PARALLELISM: \"true\"", "does not have the value of the secret NOWHERE,", "a thing with [secret removed]: refused: ", `"name": "DB_PASSWORD"`, "HF_TOKEN: '[secret removed]'"} {
		if !strings.Contains(all, stays) {
			t.Errorf("the archive has no %q: %s", stays, all)
		}
	}
}

// TestHarmlessStays: what maintainers need is not taken for a secret.
func TestHarmlessStays(t *testing.T) {
	const text = `2026-01-02 the keeper's token file is ray-token.1, key: nvidia.com/gpu, "tokenFile": "ray-token.1", "key": "orders.json", HF_TOKEN: null, "token": true, max_tokens=100 --port 8265 session_2026 sha256:abcdef0123456789abcdef bearer of news: none`
	a := New(false)
	a.Secret("", "abc", " \n")
	a.Add("keeper.log", []byte(text), int64(len(text)))
	if all := unpacked(t, a); !strings.Contains(all, text) {
		t.Error(all)
	}
}

// TestNames: no part of a name that others chose gets out of the archive's directory, or replaces another file.
func TestNames(t *testing.T) {
	a := New(false)
	for _, name := range []string{"../../etc/passwd", "/etc/passwd", "run/..", "run/\x1b[31mred\n.log", "run/-rf", "run/.ssh", "a.log", "A.log", "", strings.Repeat("x", 300), "é/ü"} {
		a.Add(name, []byte("text"), 4)
	}
	seen := map[string]bool{}
	for _, f := range a.Finish() {
		if !fs.ValidPath(f.Name) || strange.MatchString(strings.ReplaceAll(f.Name, "/", "")) || strings.Contains(f.Name, "..") || seen[strings.ToLower(f.Name)] || len(f.Name) > 210 {
			t.Errorf("a file is called %q", f.Name)
		}
		seen[strings.ToLower(f.Name)] = true
	}
	if len(seen) != 11 || !seen["etc/passwd"] || !seen["a-2.log"] {
		t.Errorf("%d files: %v", len(seen), seen)
	}
}

// TestBounds: of a long text the end is kept, from a whole line on, and the archive ends somewhere.
func TestBounds(t *testing.T) {
	a := New(false)
	line := strings.Repeat("a log ", 16) + "end\n"
	long := []byte("the secret began here " + strings.Repeat(line, launcher.EvidenceLimit/100+10))
	a.Add("cut", long, int64(len(long)))
	a.Add("one-line", bytes.Repeat([]byte("y"), launcher.EvidenceLimit+1), launcher.EvidenceLimit+1)
	a.Add("its-end", []byte("half a line\nlast\n"), 1<<40)
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	a.Add("deep.json", []byte("["+strings.Repeat(deep+",", 100)+"1]"), int64(len(deep)+1)*100+3)
	wanted := true
	for n := 0; wanted; n++ {
		wanted = a.Add(fmt.Sprint("more", n), long, int64(len(long)))
		if n > 3000 {
			t.Fatal("the archive takes everything")
		}
	}
	total := 0
	for _, f := range a.Finish() {
		total += len(f.Text)
		switch f.Name {
		case "cut":
			if text := string(f.Text); !strings.HasPrefix(text, "[debug-dump kept the last ") || strings.Contains(text, "secret") || !strings.HasSuffix(text, "\n"+line) || strings.Split(text, "\n")[1]+"\n" != line {
				t.Errorf("cut begins with %.80q", text)
			}
		case "one-line":
			if len(f.Text) > 100 {
				t.Errorf("one line: %d bytes", len(f.Text))
			}
		case "its-end":
			if string(f.Text) != "[debug-dump kept the last 5 of 1099511627776 bytes]\nlast\n" {
				t.Errorf("its end: %q", f.Text)
			}
		case ProblemsFile:
			if !strings.Contains(string(f.Text), "further texts: left out, as the archive has 5") {
				t.Errorf("%s", f.Text)
			}
		}
	}
	if total > totalLimit+2*launcher.EvidenceLimit {
		t.Errorf("the archive has %d bytes", total)
	}
}

// unpacked is the archive as text: names and contents.
func unpacked(t *testing.T, a *Archive) string {
	t.Helper()
	var packed bytes.Buffer
	if err := Write(&packed, "top", a.Finish(), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	plain, err := gzip.NewReader(&packed)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for files := tar.NewReader(plain); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		if err != nil || header.Typeflag != tar.TypeReg || header.Mode != 0o600 || !strings.HasPrefix(header.Name, "top/") {
			t.Fatal(header, err)
		}
		fmt.Fprintf(&all, "== %s\n", header.Name)
		if _, err := io.Copy(&all, files); err != nil {
			t.Fatal(err)
		}
	}
}
