package leak

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/url"
	"strings"
	"testing"
)

const planted = "s3cr3t/+ '\"<&>-5f1c77b1e0aa"

func packed(text []byte, into func(io.Writer) io.WriteCloser) []byte {
	b := &bytes.Buffer{}
	w := into(b)
	_, _ = w.Write(text) // a buffer takes all
	_ = w.Close()
	return b.Bytes()
}

// TestFind plants a secret in every form.
func TestFind(t *testing.T) {
	gz := func(text []byte) []byte {
		return packed(text, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	}
	zl := func(text []byte) []byte {
		return packed(text, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })
	}
	b64 := func(text []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(text)) }
	text := []byte("name: a\nvalue: " + planted + "\nmore: b\n")
	document, _ := json.Marshal(map[string]any{"data": map[string][]byte{"value": text}, "note": planted})
	wrapped := &strings.Builder{}
	for line := string(b64(text)); line != ""; line = line[min(20, len(line)):] {
		wrapped.WriteString("  " + line[:min(20, len(line))] + "\n")
	}
	inBase64, plain, _ := bytes.Cut(document, []byte(`"note"`))
	for form, hidden := range map[string][]byte{
		"plain": text, "JSON": plain, "base64 in JSON": inBase64,
		"query": []byte(url.QueryEscape(planted)), "path": []byte(url.PathEscape(planted)), "query of all": []byte(url.Values{"a": {string(text)}}.Encode()),
		"hex": []byte(hex.EncodeToString(text)), "HEX": []byte(strings.ToUpper(hex.EncodeToString(text))),
		"URL's base64":                 []byte(base64.RawURLEncoding.EncodeToString([]byte(planted))),
		"base64, wrapped":              []byte(wrapped.String()),
		"gzip":                         gz(text),
		"gzip after other text":        append([]byte("x\x1f\x8b\x78\x9c"), gz(text)...),
		"gzip, cut":                    gz(append(text, bytes.Repeat([]byte("0123456789"), 1000)...))[:100],
		"zlib":                         zl(text),
		"zlib in base64":               b64(zl(text)),
		"gzip in hex":                  []byte(hex.EncodeToString(gz(text))),
		"base64 in gzip":               gz(b64(text)),
		"gzip in base64 in a word":     append([]byte("prefix/"), b64(gz(text))...),
		"Helm's release in a Secret":   b64(b64(gz(text))),
		"gzip in zlib in URL's base64": []byte(base64.URLEncoding.EncodeToString(zl(gz(text)))),
	} {
		if got := Find(hidden, planted); got == "" {
			t.Errorf("%s: not found in %q", form, hidden)
		}
		if got := Find(hidden, "another-secret-0000"); got != "" {
			t.Errorf("%s: found %s", form, got)
		}
	}
	for before := range 3 {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			if got := Find([]byte("="+encoding.EncodeToString([]byte("abc"[:before]+planted+"x"))), planted); got != "in base64" {
				t.Errorf("%d bytes before: %q", before, got)
			}
		}
	}
	if Find(text, "short") == "" {
		t.Error("a secret that is too short counts as absent")
	}
}
