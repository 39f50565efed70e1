package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
)

// evil has characters with an effect on terminals: colours, titles, the clipboard, moving the cursor, C1, other directions.
const evil = "a\x1b[31mb\x1b]0;title\x07c\rd\x08e\u009b2Jf\u202eg\x7fh\xffi\u2028j"

// TestClean checks that foreign escape sequences never reach the terminal, and that other text is unchanged.
func TestClean(t *testing.T) {
	const want = `a\x1b[31mb\x1b]0;title\x07c\x0dd\x08e\u009b2Jf\u202eg\x7fh\xffi\u2028j`
	if got := Clean(evil); got != want {
		t.Errorf("%s", got)
	}
	for _, s := range []string{"", "ünï😀 日本\t\n", "עברית", "\uFFFD"} {
		if Clean(s) != s {
			t.Errorf("%q became %q", s, Clean(s))
		}
	}
	stderr := &bytes.Buffer{}
	u := NewUI(&Streams{Err: stderr, Now: time.Now}, func(string) string { return "" })
	u.Note("%s %v", evil, errors.New(evil))
	u.Warn("%s", launcher.ID(evil))
	u.Live(evil, time.Now())
	if text := stderr.String(); text == "" || strings.ContainsFunc(text, dangerous) {
		t.Errorf("stderr: %q", text)
	}

	var buffer bytes.Buffer
	if err := WriteJSON(&buffer, []string{evil}); err != nil {
		t.Fatal(err)
	}
	var back []string
	if err := json.Unmarshal(buffer.Bytes(), &back); err != nil || back[0] != strings.ToValidUTF8(evil, "\uFFFD") {
		t.Errorf("JSON is another: %q, %v", back, err)
	}
	buffer.Reset()
	if err := WriteYAML(&buffer, map[string]any{evil: []string{evil, "plain\u202etext"}}); err != nil || buffer.Len() == 0 || buffer.String() != Clean(buffer.String()) {
		t.Errorf("YAML: %q, %v", buffer.String(), err)
	}
	if name := OneLine("a\nb\tc" + evil); strings.ContainsAny(name, "\n\t") || strings.ContainsFunc(name, dangerous) {
		t.Errorf("a name: %q", name)
	}
}
