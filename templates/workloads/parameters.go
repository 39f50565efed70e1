package workloads

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rayctl/rayctl/launcher/spec"
)

// Types of parameters.
const (
	intType    = "int"
	stringType = "string"
	boolType   = "bool"
	choiceType = "choice"
)

// Parameters that each template has: the clusters' name, and the launcher for which the files are written.
const (
	nameParameter     = "name"
	launcherParameter = "launcher"
)

// Bounds where a parameter has none of its own.
const (
	defaultMin = 1
	defaultMax = 1_000_000
	maxString  = 4096
)

// Parameter is what a user may set.
type Parameter struct {
	Name    string   `yaml:"name" json:"name"`
	Type    string   `yaml:"type" json:"type"`
	Default any      `yaml:"default" json:"default"`
	Min     *int     `yaml:"min" json:"min,omitempty"` // of an int; 1 if there is none
	Max     *int     `yaml:"max" json:"max,omitempty"`
	Choices []string `yaml:"choices" json:"choices,omitempty"`
	Pattern string   `yaml:"pattern" json:"pattern,omitempty"` // the whole of a string
	Like    string   `yaml:"like" json:"like,omitempty"`       // examples of what the pattern takes; its default if there are none
	Option  string   `yaml:"option" json:"option,omitempty"`   // what gives an int to the driver: KEY=8 or --flag 8 in its script, or a key of a file of YAML
	When    string   `yaml:"when" json:"when,omitempty"`       // as that of a Check: nobody is asked for it with another value
	Help    string   `yaml:"help" json:"help"`
}

// parameterName is what both a template's [[ .name ]] and --set take.
var parameterName = regexp.MustCompile(`^[a-z][A-Za-z0-9_]*$`)

// ValueError is a value that a parameter refuses.
type ValueError struct{ Msg, Hint string }

func (e *ValueError) Error() string { return e.Msg + ": " + e.Hint }

// wrong is what contradicts the format; "" if nothing does.
func (p *Parameter) wrong() string {
	of := func(format string, args ...any) string {
		return "parameter " + p.Name + ": " + fmt.Sprintf(format, args...)
	}
	switch {
	case !parameterName.MatchString(p.Name):
		return fmt.Sprintf("parameter %q: a name has letters, digits and _, and begins with a small letter", p.Name)
	case p.Help == "" || strings.ContainsAny(p.Help, "\n\t"):
		return of("help is one line")
	case !slices.Contains([]string{intType, stringType, boolType, choiceType}, p.Type):
		return of("type %q is none of int, string, bool, choice", p.Type)
	case p.Type != intType && (p.Min != nil || p.Max != nil):
		return of("only an int has min and max")
	case p.Type != stringType && p.Pattern != "":
		return of("only a string has a pattern")
	case p.Pattern == "" && p.Like != "" || strings.ContainsAny(p.Like, "\n\t"):
		return of("like is one line, and comes with a pattern")
	case (p.Type == choiceType) != (len(p.Choices) > 0):
		return of("a choice has choices, and nothing else has")
	case p.Type != intType && p.Option != "":
		return of("only an int has an option, which is compared with the cluster file")
	case p.Default == nil:
		return of("the default is missing")
	}
	if _, err := regexp.Compile(p.Pattern); err != nil {
		return of("the pattern is none: %v", err)
	}
	if _, err := p.Value(fmt.Sprint(p.Default)); err != nil {
		return of("the default does not fit: %v", err)
	}
	return ""
}

// Concerns reports whether the parameter changes anything with these values of others.
func (p *Parameter) Concerns(values map[string]any) bool {
	return p.When == "" || holds(p.When, values)
}

// TakesZero reports whether an int may be 0.
func (p *Parameter) TakesZero() bool {
	least, _ := p.bounds()
	return least <= 0
}

// bounds are the least and the greatest value of an int.
func (p *Parameter) bounds() (least, most int) {
	least, most = defaultMin, defaultMax
	if p.Min != nil {
		least = *p.Min
	}
	if p.Max != nil {
		most = *p.Max
	}
	return least, most
}

// Takes is what a value may be, in words.
func (p *Parameter) Takes() string {
	switch p.Type {
	case intType:
		least, most := p.bounds()
		return fmt.Sprintf("%d to %d", least, most)
	case boolType:
		return "true or false"
	case choiceType:
		return strings.Join(p.Choices, ", ")
	default:
		if p.Pattern != "" {
			return "text like " + cmp.Or(p.Like, fmt.Sprint(p.Default))
		}
		return "text of one line"
	}
}

// Value is the value that a text is: an int, a bool or a string.
func (p *Parameter) Value(text string) (any, error) {
	refuse := func(hint string) (any, error) {
		shown := text
		if len(shown) > 60 {
			shown = strings.ToValidUTF8(shown[:60], "") + "..."
		}
		return nil, &ValueError{Msg: fmt.Sprintf("%s cannot be %q", p.Name, shown), Hint: hint}
	}
	switch p.Type {
	case intType:
		least, most := p.bounds()
		if n, err := strconv.Atoi(text); err == nil && n >= least && n <= most {
			return n, nil
		}
		return refuse("give a whole number from " + p.Takes())
	case boolType:
		switch strings.ToLower(text) {
		case "true", "yes", "y", "on", "1":
			return true, nil
		case "false", "no", "n", "off", "0":
			return false, nil
		}
		return refuse("give true or false")
	case choiceType:
		if slices.Contains(p.Choices, text) {
			return text, nil
		}
		if near := spec.Nearest(text, p.Choices); near != "" {
			return refuse("did you mean " + near + "? It takes " + p.Takes())
		}
		return refuse("give one of " + p.Takes())
	}
	switch {
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }):
		return refuse("it is one line of text, without control characters") // a line break would end a line of YAML or of a script
	case len(text) > maxString:
		return refuse(fmt.Sprintf("it has at most %d bytes", maxString))
	case p.Pattern != "" && !regexp.MustCompile("^(?:"+p.Pattern+")$").MatchString(text):
		return refuse("give " + p.Takes())
	}
	return text, nil
}

// All are the parameters of a template with those that each one has; project is the default of the clusters' name.
func (m *Manifest) All(project string) []Parameter {
	all := append(slices.Clone(m.Parameters), Parameter{Name: nameParameter, Type: stringType, Default: project, Help: "name of the clusters; by default that of the folder"})
	if len(m.Launchers) > 0 {
		all = append(all, Parameter{Name: launcherParameter, Type: choiceType, Choices: m.Launchers, Default: m.Launchers[0], Help: "where the clusters are"})
	}
	return all
}

// Values are the values of all parameters: the set ones as KEY=VALUE, else the defaults.
func (m *Manifest) Values(set []string, project string) (map[string]any, error) {
	all, values := m.All(project), map[string]any{launcherParameter: ""}
	var names []string
	for _, p := range all {
		value, err := p.Value(fmt.Sprint(p.Default))
		if err != nil {
			return nil, err
		}
		values[p.Name], names = value, append(names, p.Name)
	}
	for _, pair := range set {
		key, text, found := strings.Cut(pair, "=")
		i := slices.Index(names, key)
		switch {
		case !found:
			return nil, &ValueError{Msg: fmt.Sprintf("--set %q has no value", pair), Hint: "write it as KEY=VALUE"}
		case key == launcherParameter && i < 0:
			return nil, &ValueError{Msg: "template " + m.Name + " is the same for all launchers", Hint: "leave the launcher out"}
		case i < 0:
			return nil, &ValueError{Msg: fmt.Sprintf("template %s has no parameter %q", m.Name, key), Hint: nearParameter(key, names)}
		}
		if key == launcherParameter && !slices.Contains(m.Launchers, text) {
			text = cmp.Or(spec.LauncherCalled(text), text) // k8s is kuberay
		}
		value, err := all[i].Value(text)
		if err != nil {
			return nil, err
		}
		values[key] = value
	}
	if err := spec.CheckName(fmt.Sprint(values[nameParameter])); err != nil {
		return nil, &ValueError{Msg: fmt.Sprintf("name cannot be %q", values[nameParameter]), Hint: "use at most 40 lower-case letters, digits and -, beginning and ending with a letter or digit"}
	}
	return values, nil
}

func nearParameter(key string, names []string) string {
	if near := spec.Nearest(key, names); near != "" {
		return "did you mean " + near + "?"
	}
	return "it has " + strings.Join(names, ", ")
}
