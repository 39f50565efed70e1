package dump

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rayctl/rayctl/cmd/config"
)

// removed stands where a secret was.
const removed = "[secret removed]"

// Values shorter than these are not searched for: they are in many words. One that only has the name of a secret is often none, such as `true`.
const (
	leastSecret = 4
	leastNamed  = 8
)

// secrets are the values that no text may have, and the names of variables whose values are secret.
type secrets struct {
	values map[string]bool
	names  map[string]bool
}

// add takes a value, and each line of it, as programs may print one with an indentation.
func (s *secrets) add(value string, least int) {
	if s.values == nil {
		s.values = map[string]bool{}
	}
	value = strings.TrimSpace(value)
	if len(value) >= least {
		s.values[value] = true
	}
	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= leastNamed {
				s.values[line] = true
			}
		}
	}
}

// name takes the name of a variable whose value is secret.
func (s *secrets) name(name string) {
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[name] = true
}

// named reports whether what has this name is a secret: a variable, an option or a key of a document. `key` alone is mostly none.
func (s *secrets) named(name string) bool {
	name = strings.TrimLeft(name, "-")
	return s.names[name] || !strings.EqualFold(name, "key") && config.NamesSecret(strings.ReplaceAll(name, "-", "_"))
}

// document removes from a JSON document what is secret by its name, and learns the values. Another text stays as it is.
func (s *secrets) document(text []byte) []byte {
	if begin := bytes.TrimSpace(text); len(begin) == 0 || begin[0] != '{' && begin[0] != '[' {
		return text
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var document any
	if decoder.Decode(&document) != nil || decoder.Decode(new(any)) != io.EOF {
		return text
	}
	depth := s.clean(document)
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if depth < deepest {
		encoder.SetIndent("", "  ")
	}
	if encoder.Encode(document) != nil {
		return text
	}
	return out.Bytes()
}

// deepest is the depth from which a document is not indented: the indentation of one that is nothing but brackets would fill the memory.
const deepest = 50

// clean walks through a document, and returns its depth.
func (s *secrets) clean(value any) (depth int) {
	switch value := value.(type) {
	case []any:
		for _, each := range value {
			depth = max(depth, s.clean(each))
		}
	case map[string]any:
		if name, ok := value["name"].(string); ok && s.named(name) { // a variable as Kubernetes writes it
			s.take(value, "value")
		}
		for key := range value {
			if s.named(key) {
				s.take(value, key)
			}
			depth = max(depth, s.clean(value[key]))
		}
	}
	return depth + 1
}

// take removes a text of a document.
func (s *secrets) take(from map[string]any, key string) {
	if text, ok := from[key].(string); ok && text != "" {
		s.add(text, leastNamed)
		from[key] = removed
	}
}

// remover removes secrets from texts.
type remover struct {
	secrets *secrets
	values  *strings.Replacer
}

func (s *secrets) remover() *remover {
	forms := map[string]bool{}
	for value := range s.values {
		for _, form := range formsOf(value) {
			forms[form] = true
		}
	}
	var pairs []string
	for form := range forms {
		pairs = append(pairs, form)
	}
	slices.SortFunc(pairs, func(a, b string) int { return len(b) - len(a) }) // the longest that fits is replaced
	var all []string
	for _, form := range pairs {
		all = append(all, form, removed)
	}
	return &remover{s, strings.NewReplacer(all...)}
}

// formsOf are the ways in which texts have a value: as it is, in JSON of Go and of Python, in a URL, and in base64 at each of the three places where it may begin there.
func formsOf(value string) []string {
	plain, _ := json.Marshal(value) // a string has no error
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	for _, quoted := range []string{string(plain), strconv.Quote(value), strconv.QuoteToASCII(value)} {
		forms = append(forms, quoted[1:len(quoted)-1])
	}
	for _, coding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			code := coding.EncodeToString(append(make([]byte, before), value...))
			begin, end := (before*8+5)/6, (before+len(value))*8/6 // the characters that are of the value alone
			if code = code[begin:end]; len(code) >= leastNamed {
				forms = append(forms, code)
			}
		}
	}
	return forms
}

// broken is base64 in several lines, as base64(1) writes it.
var broken = regexp.MustCompile(`(?m)(?:^[ \t]*[A-Za-z0-9+/_-]{40,}[ \t]*\r?\n)+[ \t]*[A-Za-z0-9+/_-]*=*`)

// removeBroken replaces base64 in several lines if it has a secret.
func (r *remover) removeBroken(lines []byte) []byte {
	joined := strings.Join(strings.Fields(string(lines)), "")
	if r.values.Replace(joined) == joined {
		return lines
	}
	return []byte(removed)
}

// Secrets that are found by their form. The groups of a match are what stays before and behind them.
var (
	privateKey    = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?`)
	authorization = regexp.MustCompile(`(?i)(authorization\\*["']?\s*[:=]\s*\\*["']?)[^"'\\\r\n]+()`)
	bearer        = regexp.MustCompile(`(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{12,}()`)
	userinfo      = regexp.MustCompile(`(://[^\s/:@"']*:)[^\s/@"']+(@)`)
	known         = regexp.MustCompile(`()\b(?:hf_|ghp_|gho_|github_pat_|glpat-|xox[abp]-|sk-)[A-Za-z0-9_-]{16,}()`)
	webToken      = regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*()`)

	byForm = []*regexp.Regexp{authorization, bearer, userinfo, known, webToken}
)

// Secrets that are found by a name before them: NAME=VALUE, "name": "value", --name VALUE.
var (
	assigned = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_-]*)(\\*["']?[ \t]*[=:][ \t]*)(\\+"[^"\\\n]*\\+"|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s"'\\,;&{}\[\]]+)`)
	option   = regexp.MustCompile(`(--?[A-Za-z][A-Za-z0-9_-]*)([ \t]+)("[^"\n]*"|'[^'\n]*'|[^\s"'-][^\s"']*)`)
)

// suspect are the words without which a line has no secret that is found by its form or its name: most of the lines of long logs have none of them.
var suspect = [][]byte{
	[]byte("token"), []byte("secret"), []byte("pass"), []byte("key"), []byte("auth"), []byte("bearer"), []byte("://"), []byte("eyj"), []byte("hf_"), []byte("ghp_"), []byte("gho_"), []byte("github_pat_"),
	[]byte("glpat-"), []byte("xox"), []byte("sk-"),
}

// remove returns a text without secrets.
func (r *remover) remove(text []byte) []byte {
	text = broken.ReplaceAllFunc(text, r.removeBroken) // before its lines are changed
	text = []byte(r.values.Replace(string(text)))
	text = privateKey.ReplaceAll(text, []byte(removed))
	out := bytes.NewBuffer(make([]byte, 0, len(text)))
	for line := range bytes.Lines(text) {
		if r.suspects(line) {
			line = r.removeFromLine(line)
		}
		out.Write(line)
	}
	return out.Bytes()
}

func (r *remover) suspects(line []byte) bool {
	for name := range r.secrets.names {
		if bytes.Contains(line, []byte(name)) {
			return true
		}
	}
	lower := bytes.ToLower(line)
	return slices.ContainsFunc(suspect, func(word []byte) bool { return bytes.Contains(lower, word) })
}

func (r *remover) removeFromLine(line []byte) []byte {
	for _, form := range byForm {
		line = form.ReplaceAll(line, []byte("${1}"+removed+"${2}"))
	}
	for _, form := range []*regexp.Regexp{assigned, option} {
		line = form.ReplaceAllFunc(line, func(found []byte) []byte { return r.removeValue(form.FindSubmatch(found)) })
	}
	return line
}

// noSecrets are values that say no more than whether there is a secret.
var noSecrets = []string{"null", "true", "false", removed}

// removeValue replaces the value behind a secret's name, and keeps its quotes.
func (r *remover) removeValue(match [][]byte) []byte {
	name, between, value := match[1], match[2], match[3]
	inner := bytes.Trim(value, `\"'`)
	if !r.secrets.named(string(name)) || len(inner) == 0 || slices.Contains(noSecrets, string(inner)) {
		return match[0]
	}
	begin := bytes.Index(value, inner)
	return slices.Concat(name, between, value[:begin], []byte(removed), value[begin+len(inner):])
}
