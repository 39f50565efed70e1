package config

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// envLine is a variable of a .env file, and the line that it begins in.
type envLine struct {
	name, value string
	line        int
}

// envFault is why a .env file cannot be read, and what to do; line is 0 for the whole file. It never has text of the file, which may be a secret.
type envFault struct {
	line      int
	msg, hint string
}

var (
	assignment = regexp.MustCompile(`^\s*(?:export\s+)?(.*?)\s*(?:=|:\s)(.*)$`)
	envName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	comment    = regexp.MustCompile(`\s#.*$`)
	// dollars are what is replaced in a value: \$, and in double quotes other characters after a backslash; $NAME, ${NAME}, ${NAME and more.
	dollars = regexp.MustCompile(`\\(.)|\$([A-Za-z_][A-Za-z0-9_]*)|\$\{([A-Za-z_][A-Za-z0-9_]*)(\}?)`)
)

// parseEnvFile reads lines NAME=VALUE or NAME: VALUE, optionally behind export. A value may be in quotes, and then have several lines. $NAME and ${NAME} are the
// value of an earlier variable of the file; of any other variable they stay as written, for the node. Single quotes keep everything as it is. We parse it
// ourselves, because joho/godotenv makes an unknown $NAME empty and $(x) to (x), and its errors have no line, but text of the file.
func parseEnvFile(text string) ([]envLine, *envFault) {
	text = strings.TrimPrefix(text, "\ufeff") // Windows editors write this mark
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil, &envFault{msg: "is not a text file in UTF-8", hint: "save it as UTF-8"}
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	var out []envLine
	known := map[string]string{}
	for i := 0; i < len(lines); i++ {
		if trimmed := strings.TrimSpace(lines[i]); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		m := assignment.FindStringSubmatch(lines[i])
		if m == nil {
			return nil, &envFault{i + 1, "has no =", "write NAME=VALUE; --env NAME takes a variable from your environment"}
		}
		if !envName.MatchString(m[1]) {
			return nil, &envFault{i + 1, "begins with what is not the name of a variable", "use letters, digits and _ before the =, not beginning with a digit"}
		}
		value, more, fault := envValue(m[2], lines[i+1:], known)
		if fault != nil {
			fault.line += i + 1
			return nil, fault
		}
		out = append(out, envLine{m[1], value, i + 1})
		known[m[1]] = value
		i += more
	}
	return out, nil
}

// envValue reads a value that begins with the rest of a line and may go on in the following lines: more of them.
func envValue(rest string, following []string, known map[string]string) (value string, more int, fault *envFault) {
	start := strings.TrimSpace(rest)
	if start == "" || start[0] != '"' && start[0] != '\'' {
		value, fault = replaced(strings.TrimSpace(comment.ReplaceAllString(rest, "")), false, known)
		return value, 0, fault
	}
	quote, text := start[0], start[1:]
	end := closing(text, quote)
	for ; end < 0; end = closing(text, quote) {
		if more == len(following) {
			return "", 0, &envFault{msg: "opens a quote that is not closed", hint: "close it, or put the whole value into the other kind of quotes"}
		}
		text += "\n" + following[more]
		more++
	}
	if after := strings.TrimSpace(text[end+1:]); after != "" && after[0] != '#' {
		return "", 0, &envFault{line: more, msg: "has text after the closing quote", hint: "put the whole value into quotes"}
	}
	if quote == '\'' {
		return text[:end], more, nil
	}
	value, fault = replaced(text[:end], true, known)
	return value, more, fault
}

// closing is where a quote ends in text; in double quotes a backslash hides the character after it.
func closing(text string, quote byte) int {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == quote:
			return i
		case text[i] == '\\' && quote == '"':
			i++
		}
	}
	return -1
}

// escapes are the characters that a backslash stands for in double quotes.
var escapes = map[string]string{"n": "\n", "r": "\r", "t": "\t", `"`: `"`, `\`: `\`, "$": "$"}

// replaced is a value with its escapes, and with the variables of the file that it names.
func replaced(value string, quoted bool, known map[string]string) (string, *envFault) {
	var fault *envFault
	out := dollars.ReplaceAllStringFunc(value, func(found string) string {
		m := dollars.FindStringSubmatch(found)
		escape, isEscape := escapes[m[1]]
		name := m[2] + m[3]
		earlier, isEarlier := known[name]
		switch {
		case isEscape && (quoted || m[1] == "$"):
			return escape
		case m[3] != "" && m[4] == "": // ${NAME:-default}, which Ray would give to the program as it is
			fault = &envFault{msg: "has a ${ that does not end after the name, and neither rayctl nor Ray replaces that", hint: "write $NAME or the value, or put it into single quotes"}
		case name != "" && isEarlier:
			return earlier
		}
		return found
	})
	return out, fault
}
