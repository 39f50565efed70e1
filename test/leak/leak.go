// Package leak looks for secrets in what others may read: as they are, encoded, and in what is packed.
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
	"regexp"
	"strings"
)

// depth is how many encodings may be in one another: a release of Helm in a Secret is gzip in base64 in base64.
const depth = 3

// most bounds what is unpacked of one stream.
const most = 64 << 20

// Find returns how a text hides a secret, from the outside: "as it is", "in base64, in gzip"; "" if it does not. A secret has 8 bytes at least: shorter ones
// are in everything.
func Find(text []byte, secret string) string {
	if len(secret) < 8 {
		return "the secret is too short to be looked for"
	}
	return find(text, needles(secret), depth)
}

// needle is one way to write the secret.
type needle struct {
	form string
	text []byte
}

func needles(secret string) []needle {
	quoted, _ := json.Marshal(secret) // strings never fail
	out := []needle{
		{"as it is", []byte(secret)}, {"in JSON", bytes.Trim(quoted, `"`)}, {"in a URL", []byte(url.QueryEscape(secret))}, {"in a URL", []byte(url.PathEscape(secret))},
		{"in hex", []byte(hex.EncodeToString([]byte(secret)))}, {"in hex", []byte(strings.ToUpper(hex.EncodeToString([]byte(secret))))},
	}
	for before := range 3 { // bytes of other text in the group of three in which the secret begins
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			encoded := encoding.EncodeToString(append(make([]byte, before), secret...))
			out = append(out, needle{"in base64", []byte(encoded[(before*8+5)/6 : (before+len(secret))*8/6])})
		}
	}
	return out
}

func find(text []byte, of []needle, left int) string {
	for _, n := range of {
		if bytes.Contains(text, n.text) {
			return n.form
		}
	}
	if left == 0 {
		return ""
	}
	for _, l := range layers(text) {
		if form := find(l.text, of, left-1); form != "" {
			return l.form + ", " + form
		}
	}
	return ""
}

var (
	wraps     = regexp.MustCompile(`(\\n|\r?\n)[ \t]*`)
	base64Run = regexp.MustCompile(`[A-Za-z0-9+/_-]{24,}`)
	hexRun    = regexp.MustCompile(`(?:[0-9a-fA-F]{2}){16,}`)
)

// layers are what is encoded or packed in a text. Encoded text may be broken into lines.
func layers(text []byte) []needle {
	var out []needle
	whole := wraps.ReplaceAll(text, nil)
	texts := [][]byte{text}
	if len(whole) < len(text) {
		texts = append(texts, whole)
	}
	for _, t := range texts {
		for _, run := range base64Run.FindAll(t, -1) {
			out = append(out, decoded(run)...)
		}
		for _, run := range hexRun.FindAll(t, -1) {
			plain := make([]byte, len(run)/2)
			if _, err := hex.Decode(plain, run); err == nil {
				out = append(out, needle{"in hex", plain})
			}
		}
	}
	if plain, err := url.QueryUnescape(string(text)); err == nil && plain != string(text) {
		out = append(out, needle{"in a URL", []byte(plain)})
	}
	for at := range text {
		if plain, form := unpacked(text[at:]); len(plain) > 0 {
			out = append(out, needle{form, plain})
		}
	}
	return out
}

// decoded is a run of base64 from each of its first characters: others may stand before it.
func decoded(run []byte) (out []needle) {
	run = bytes.ReplaceAll(bytes.ReplaceAll(run, []byte("-"), []byte("+")), []byte("_"), []byte("/"))
	for at := range 4 {
		part := run[at:]
		if len(part)%4 == 1 { // the last character is none of a whole byte
			part = part[:len(part)-1]
		}
		plain := make([]byte, base64.RawStdEncoding.DecodedLen(len(part)))
		if n, _ := base64.RawStdEncoding.Decode(plain, part); n > 0 {
			out = append(out, needle{"in base64", plain[:n]})
		}
	}
	return out
}

// unpacked is what is in a stream of gzip or zlib that begins here; it may be cut.
func unpacked(text []byte) (plain []byte, form string) {
	var r io.Reader
	var err error
	switch {
	case len(text) < 8:
		return nil, ""
	case text[0] == 0x1f && text[1] == 0x8b:
		form = "in gzip"
		r, err = gzip.NewReader(bytes.NewReader(text))
	case text[0]&0x0f == 8 && text[0]>>4 <= 7 && (int(text[0])<<8|int(text[1]))%31 == 0:
		form = "in zlib"
		r, err = zlib.NewReader(bytes.NewReader(text))
	default:
		return nil, ""
	}
	if err != nil {
		return nil, ""
	}
	plain, _ = io.ReadAll(io.LimitReader(r, most)) // what came before an error counts
	return plain, form
}
