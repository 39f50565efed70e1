package pack

import "strings"

// token is one part of a pattern with wildcards.
type token struct {
	kind tokenKind
	char byte       // of char
	set  *[256]bool // of set
}

type tokenKind byte

const (
	char     tokenKind = iota // this byte
	set                       // one byte of a set without the slash: "?" and "[a-z]". Bytes, not characters, as in git
	star                      // any bytes but slashes
	deep                      // any bytes: "**" as a whole part of the path
	deepDirs                  // nothing, or any bytes up to a slash and that slash: "**/"
)

// parseWildcards parses a pattern's text. ok is false if it is malformed.
func parseWildcards(text string) (tokens []token, ok bool) {
	for i := 0; i < len(text); {
		t := token{kind: char, char: text[i]}
		switch text[i] {
		case '*':
			t.kind, i = parseStars(text, i)
		case '?':
			t.kind, t.set = set, &anyByte
			i++
		case '[':
			t.kind = set
			if t.set, i, ok = parseSet(text, i+1); !ok {
				return nil, false
			}
		case '\\':
			if i+1 == len(text) {
				return nil, false
			}
			t.char = text[i+1]
			i += 2
		default:
			i++
		}
		tokens = append(tokens, t)
	}
	return tokens, true
}

// parseStars parses one or more asterisks at text[i] and returns where they end. Two or more count as "**" only between slashes or ends of the path.
func parseStars(text string, i int) (tokenKind, int) {
	end := i
	for end < len(text) && text[end] == '*' {
		end++
	}
	rest := text[end:]
	switch {
	case end-i == 1 || i > 0 && text[i-1] != '/':
		return star, end
	case strings.HasPrefix(rest, "/"):
		return deepDirs, end + 1
	case rest == "" || strings.HasPrefix(rest, `\/`):
		return deep, end
	}
	return star, end
}

// parseSet parses the text after "[" and returns where it ends. ok is false without an end, or with an unknown class.
func parseSet(text string, i int) (members *[256]bool, end int, ok bool) {
	members = new([256]bool)
	negated := i < len(text) && (text[i] == '!' || text[i] == '^')
	if negated {
		i++
	}
	previous := 0 // the previous byte, as a possible start of a range; 0: none
	for first := true; ; first = false {
		if i >= len(text) {
			return nil, 0, false
		}
		switch c := text[i]; {
		case c == ']' && !first:
			complete(members, negated)
			return members, i + 1, true
		case c == '-' && previous != 0 && i+1 < len(text) && text[i+1] != ']':
			last, next, ok := escaped(text, i+1)
			if !ok {
				return nil, 0, false
			}
			for b := previous; b <= int(last); b++ {
				members[b] = true
			}
			previous, i = 0, next
		case c == '[' && strings.HasPrefix(text[i:], "[:"):
			name, next, ok := className(text, i+2)
			if !ok {
				return nil, 0, false
			}
			if name == "" { // no class
				members['['], previous = true, '['
				i++
				continue
			}
			class, known := classes[name]
			if !known {
				return nil, 0, false
			}
			for b := range 128 {
				members[b] = members[b] || class(byte(b))
			}
			previous, i = 0, next
		default:
			b, next, ok := escaped(text, i)
			if !ok {
				return nil, 0, false
			}
			members[b], previous, i = true, int(b), next
		}
	}
}

// complete inverts a negated set. No set contains a slash.
func complete(members *[256]bool, negated bool) {
	for b := range members {
		members[b] = members[b] != negated
	}
	members['/'] = false
}

// escaped returns the byte at text[i], or the next one if that is a backslash, and the index after it.
func escaped(text string, i int) (b byte, next int, ok bool) {
	if text[i] != '\\' {
		return text[i], i + 1, true
	}
	if i+1 == len(text) {
		return 0, 0, false
	}
	return text[i+1], i + 2, true
}

// className parses the name after "[:" and returns the index after it. The name is empty if the next "]" has no ":" before it: then this is
// not a class. ok is false if there is no "]".
func className(text string, i int) (name string, next int, ok bool) {
	length := strings.IndexByte(text[i:], ']')
	if length < 0 {
		return "", 0, false
	}
	if length == 0 || text[i+length-1] != ':' {
		return "", i, true
	}
	if length == 1 {
		return ":", i, true // "[::]": a class without a name does not exist
	}
	return text[i : i+length-1], i + length + 1, true
}

// classes are git's, which are ASCII only.
var classes = map[string]func(byte) bool{
	"alnum":  func(b byte) bool { return isLetter(b) || isDigit(b) },
	"alpha":  isLetter,
	"blank":  func(b byte) bool { return b == ' ' || b == '\t' },
	"cntrl":  func(b byte) bool { return b < ' ' || b == 0x7f },
	"digit":  isDigit,
	"graph":  isGraph,
	"lower":  func(b byte) bool { return 'a' <= b && b <= 'z' },
	"print":  func(b byte) bool { return b == ' ' || isGraph(b) },
	"punct":  func(b byte) bool { return isGraph(b) && !isLetter(b) && !isDigit(b) },
	"space":  func(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }, // git's own isspace
	"upper":  func(b byte) bool { return 'A' <= b && b <= 'Z' },
	"xdigit": func(b byte) bool { return isDigit(b) || 'a' <= b|0x20 && b|0x20 <= 'f' },
}

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }
func isDigit(b byte) bool  { return '0' <= b && b <= '9' }
func isGraph(b byte) bool  { return '!' <= b && b <= '~' }

// anyByte is the set of "?".
var anyByte = func() (members [256]bool) {
	complete(&members, true)
	return members
}()

// matchWildcards reports whether the tokens match the whole text.
//
// On a mismatch it returns to the last star, which then takes one more byte, or else to the last deep or deepDirs. Earlier ones need no other try,
// which bounds the time for every pattern. The reason is that a star ends at the next slash at the latest and "**" stands only after a slash: the same
// slashes follow, whatever an earlier wildcard took.
func matchWildcards(tokens []token, text string) bool {
	at, pos := 0, 0
	lastStar, starPos := -1, 0
	lastDeep, deepPos := -1, 0
	for {
		if at == len(tokens) {
			if pos == len(text) {
				return true
			}
		} else {
			switch t := &tokens[at]; t.kind {
			case star:
				lastStar, starPos = at, pos
				at++
				continue
			case deep, deepDirs:
				lastStar, lastDeep, deepPos = -1, at, pos
				at++
				continue
			case char, set:
				if pos < len(text) && (t.kind == char && t.char == text[pos] || t.kind == set && t.set[text[pos]]) {
					at++
					pos++
					continue
				}
			}
		}
		switch {
		case lastStar >= 0 && starPos < len(text) && text[starPos] != '/':
			starPos++
			at, pos = lastStar+1, starPos
		case lastDeep >= 0 && deepPos < len(text):
			step := 1
			if tokens[lastDeep].kind == deepDirs {
				if step = strings.IndexByte(text[deepPos:], '/') + 1; step == 0 {
					return false
				}
			}
			deepPos += step
			lastStar = -1
			at, pos = lastDeep+1, deepPos
		default:
			return false
		}
	}
}
