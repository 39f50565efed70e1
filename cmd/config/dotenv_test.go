package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEnvFile: lines, comments and quotes as in .env files; --env and an unreadable file.
func TestEnvFile(t *testing.T) {
	const file = "# a comment\n\nA=plain # and a comment\nexport B=\"two\\nlines\"\nC='$(id) \"x\" # no comment'\nD=\nE=from the file\nF=a=b\nAPI_KEY=k1\nDB_PASSWORD='p$x'\n"
	f := newFixture(t, map[string]string{"rayctl.yaml": "name: a\njob: {env: {A: of the cluster file, Z: kept}}\n", ".env": file})
	l := f.must("", "--env", "E=from --env", "--env-file", ".env")
	want := map[string]string{
		"A": "plain", "B": "two\nlines", "C": `$(id) "x" # no comment`, "D": "", "E": "from --env", "F": "a=b", "Z": "kept", "API_KEY": "k1", "DB_PASSWORD": "p$x",
	}
	if d := cmp.Diff(want, l.Spec.Job.Env); d != "" {
		t.Error(d)
	}
	if from := l.Origins.of("job.env.B"); from != ".env:4" {
		t.Errorf("from %q", from)
	}
	const told = "--env-file API_KEY, DB_PASSWORD: Ray shows the environment of a job"
	if len(l.Warnings) != 1 || !strings.HasPrefix(l.Warnings[0], told) {
		t.Errorf("warnings %q, want %q", l.Warnings, told)
	}
	f = newFixture(t, nil)
	f.fails("--env-file: nosuch.env cannot be read: no such file or directory: give a file of lines NAME=VALUE", "", "--env-file", "nosuch.env")
}

// TestEnvFileValues: what a value means. What Ray replaces on the node goes there as it is written.
func TestEnvFileValues(t *testing.T) {
	for line, want := range map[string]string{
		`V=/opt/tools/bin:$PATH`:        `/opt/tools/bin:$PATH`, // which was /opt/tools/bin:, so that the job found no program
		`V=/opt/tools/bin:${PATH}`:      `/opt/tools/bin:${PATH}`,
		`V="$Home and $1 and $$"`:       `$Home and $1 and $$`,
		`V=$BASE/x and ${BASE}x`:        `/base/x and /basex`,
		`V=$BASES`:                      `$BASES`,
		`V='$BASE \n'`:                  `$BASE \n`,
		`V=\$BASE`:                      `$BASE`,
		`V=$(id)`:                       `$(id)`,
		`V="a \"b\" \\ \t\d"`:           "a \"b\" \\ \t\\d",
		`V=C:\new`:                      `C:\new`,
		`V= a # b # c`:                  `a`,
		`V=#fff`:                        `#fff`,
		`V= # nothing`:                  ``,
		`V="" # nothing`:                ``,
		`V: as in YAML`:                 `as in YAML`,
		"V=\"one\n# two\nthree\" # end": "one\n# two\nthree",
		"V='one\r\ntwo'":                "one\ntwo",
		"V=first\nV=${V}, then another": "first, then another",
		"\texport\tV =  spaced  ":       "spaced",
		"# only a comment\nV=1":         "1",
		`V='${UNKNOWN:-x}'`:             `${UNKNOWN:-x}`,
	} {
		vars, fault := parseEnvFile("\ufeffBASE=/base\r\n" + line)
		if fault != nil || len(vars) < 2 || vars[0].name != "BASE" || vars[len(vars)-1].name != "V" || vars[len(vars)-1].value != want {
			t.Errorf("%s: %+v, %+v, want %q", line, vars, fault, want)
		}
	}
}

// TestEnvFileFaults: each fault is a sentence with its line, and none shows text of the file, which may be a secret.
func TestEnvFileFaults(t *testing.T) {
	for text, want := range map[string]string{
		"A=1\n\nhunter2 has no name\n": "line 3 of .env has no =: write NAME=VALUE; --env NAME takes a variable from your environment",
		"hunter2":                      "line 1 of .env has no =: write",
		"A=1\nexport hunter2":          "line 2 of .env has no =: write",
		"A=1\nhunter2-key=1":           "line 2 of .env begins with what is not the name of a variable: use letters, digits and _ before the =",
		"hunter.2=1":                   "line 1 of .env begins with what is not the name of a variable",
		"=hunter2":                     "line 1 of .env begins with what is not the name of a variable",
		"A='a\nb'\nB=\"hunter2\n\n":    "line 3 of .env opens a quote that is not closed: close it",
		"A='a\nb'hunter2":              "line 2 of .env has text after the closing quote: put",
		"A='it'\nB=1:${X:-hunter2}":    "line 2 of .env has a ${ that does not end after the name, and neither rayctl nor Ray replaces that: write $NAME or the value",
		"A=1\x00":                      ".env is not a text file in UTF-8: save it as UTF-8",
		"A=\xffhunter2":                ".env is not a text file in UTF-8: save it as UTF-8",
		"A=1\nRAYCTL_RUN=hunter2":      `.env:2: job.env.RAYCTL_RUN: "RAYCTL_RUN" begins with RAYCTL_, which is reserved`,
	} {
		_, err := newFixture(t, map[string]string{".env": text}).load("", "--env-file", ".env")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
