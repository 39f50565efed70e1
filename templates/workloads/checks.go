package workloads

import (
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Check compares parameters of the type int. A side is a sum of products of parameters, numbers and flags of the driver, such as nodes * gpus + 1. A flag, such as
// --workers, is a number that a template makes of parameters: `init` has nothing to compare, but a user may change it afterwards.
type Check struct {
	Divides []string `yaml:"divides" json:"divides,omitempty"` // the first divides the second
	AtMost  []string `yaml:"atMost" json:"atMost,omitempty"`   // the first is at most the second
	Equal   []string `yaml:"equal" json:"equal,omitempty"`     // both are the same
	When    string   `yaml:"when" json:"when,omitempty"`       // PARAMETER, which is true or not 0, or PARAMETER=VALUE: the check is for this value only
	Says    string   `yaml:"says" json:"says"`                 // the framework's rule, which the error gives as the cause

	sides [2]sum
}

// sum is an expression: the sum of products.
type sum struct {
	text     string
	products [][]string
}

func (c *Check) parse(m *Manifest) error {
	var given [][]string
	for _, sides := range [][]string{c.Divides, c.AtMost, c.Equal} {
		if sides != nil {
			given = append(given, sides)
		}
	}
	if len(given) != 1 || len(given[0]) != 2 || c.Says == "" {
		return fmt.Errorf("a check has one of divides, atMost and equal with two sides, and says")
	}
	for i, text := range given[0] {
		side, err := parseSum(text, m)
		if err != nil {
			return err
		}
		c.sides[i] = side
	}
	if name := m.unknownWhen(c.When); name != "" {
		return fmt.Errorf("a check is for a value of %s, which is no parameter", name)
	}
	return nil
}

// unknownWhen is the name in a condition that is no parameter; "" if all is well.
func (m *Manifest) unknownWhen(when string) string {
	name, _, _ := strings.Cut(when, "=")
	if name == "" || name == launcherParameter || m.parameter(name) != nil {
		return ""
	}
	return name
}

func (m *Manifest) parameter(name string) *Parameter {
	i := slices.IndexFunc(m.Parameters, func(p Parameter) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &m.Parameters[i]
}

func parseSum(text string, m *Manifest) (sum, error) {
	s := sum{text: text}
	for _, part := range strings.Split(text, "+") {
		var product []string
		for _, factor := range strings.Split(part, "*") {
			factor = strings.TrimSpace(factor)
			p := m.parameter(factor)
			if _, err := strconv.ParseUint(factor, 10, 31); err != nil && !isFlag(factor) && (p == nil || p.Type != intType) {
				return s, fmt.Errorf("a side of a check is a sum of products of numbers, flags (--flag) and parameters of the type int, and %q is not: %q", text, factor)
			}
			product = append(product, factor)
		}
		s.products = append(s.products, product)
	}
	return s, nil
}

var flagName = regexp.MustCompile(`^--[a-zA-Z][a-zA-Z0-9_.-]*$`)

func isFlag(factor string) bool { return flagName.MatchString(factor) }

// Options are what gives the driver its sizes, by the parameter of each. A flag of a check stands for itself.
func (m *Manifest) Options() map[string]string {
	all := map[string]string{}
	for i := range m.Parameters {
		if p := &m.Parameters[i]; p.Option != "" {
			all[p.Name] = p.Option
		}
	}
	for _, flag := range m.flags() {
		all[flag] = flag
	}
	return all
}

// flags are those in checks.
func (m *Manifest) flags() (all []string) {
	for i := range m.Checks {
		for _, factor := range m.Checks[i].factors() {
			if isFlag(factor) {
				all = append(all, factor)
			}
		}
	}
	return all
}

// factors are those of both sides, the second one first.
func (c *Check) factors() []string {
	return slices.Concat(slices.Concat(c.sides[1].products...), slices.Concat(c.sides[0].products...))
}

// known reports whether each parameter of the sum has a value.
func (s sum) known(values map[string]any) bool {
	for _, factor := range slices.Concat(s.products...) {
		if _, err := strconv.Atoi(factor); err == nil {
			continue
		}
		if _, is := values[factor].(int); !is {
			return false
		}
	}
	return true
}

// value calculates the sum without a limit of its size.
func (s sum) value(values map[string]any) *big.Int {
	total := new(big.Int)
	for _, product := range s.products {
		p := big.NewInt(1)
		for _, factor := range product {
			n, isParameter := values[factor].(int)
			if !isParameter {
				n, _ = strconv.Atoi(factor) // parseSum has seen that it is a number
			}
			p.Mul(p, big.NewInt(int64(n)))
		}
		total.Add(total, p)
	}
	return total
}

// shown is the side as a message has it: "nodes * gpus = 32".
func (s sum) shown(values map[string]any, w Wording) string {
	var products []string
	for _, product := range s.products {
		var factors []string
		for _, factor := range product {
			if _, err := strconv.Atoi(factor); err != nil {
				factor = w.Name(factor)
			}
			factors = append(factors, factor)
		}
		products = append(products, strings.Join(factors, " * "))
	}
	return strings.Join(products, " + ") + " = " + s.value(values).String()
}

// Wording is how messages speak of parameters: of those of a command line, or of the keys of files.
type Wording struct {
	Name   func(parameter string) string
	Change func(parameter string, to []int) string // what gives it one of these values
	Other  string                                  // the next step where a change of one value is not enough
}

// Or lists numbers as a message has them: "6 or 9".
func Or(numbers []int) string {
	var all []string
	for _, n := range numbers {
		all = append(all, strconv.Itoa(n))
	}
	return strings.Join(all, " or ")
}

// ofInit is the wording of `rayctl init`.
var ofInit = Wording{
	Name: func(parameter string) string { return parameter },
	Change: func(parameter string, to []int) string {
		var all []string
		for _, n := range to {
			all = append(all, fmt.Sprintf("--set %s=%d", parameter, n))
		}
		return "give " + strings.Join(all, " or ")
	},
	Other: "set other values with --set",
}

// CheckValues refuses values of all parameters that do not fit together.
func (m *Manifest) CheckValues(values map[string]any) error {
	if broken := m.Compare(values, ofInit); broken != nil {
		return broken
	}
	return nil
}

// Compare refuses values that do not fit together, or that are not within the bounds of their parameters. A check with a parameter that has no value is left out.
func (m *Manifest) Compare(values map[string]any, w Wording) *ValueError {
	for i := range m.Checks {
		c := &m.Checks[i]
		if relation := c.broken(values, w); relation != "" {
			return &ValueError{Msg: relation + ", but " + c.Says, Hint: m.hint(c, values, w)}
		}
	}
	for i := range m.Parameters {
		p := &m.Parameters[i]
		n, known := values[p.Name].(int)
		if least, most := p.bounds(); known && (n < least || n > most) {
			return &ValueError{Msg: fmt.Sprintf("%s is %d, but the template %s takes %s", w.Name(p.Name), n, m.Name, p.Takes()), Hint: w.Other}
		}
	}
	return nil
}

// broken is what contradicts the check; "" if nothing does.
func (c *Check) broken(values map[string]any, w Wording) string {
	if c.When != "" && !holds(c.When, values) || !c.sides[0].known(values) || !c.sides[1].known(values) {
		return ""
	}
	a, b := c.sides[0].value(values), c.sides[1].value(values)
	switch {
	case c.Divides != nil && (a.Sign() == 0 || new(big.Int).Rem(b, a).Sign() != 0):
		return fmt.Sprintf("%s is not divisible by %s", c.sides[1].shown(values, w), c.sides[0].shown(values, w))
	case c.AtMost != nil && a.Cmp(b) > 0:
		return fmt.Sprintf("%s is more than %s", c.sides[0].shown(values, w), c.sides[1].shown(values, w))
	case c.Equal != nil && a.Cmp(b) != 0:
		return fmt.Sprintf("%s is not %s", c.sides[0].shown(values, w), c.sides[1].shown(values, w))
	}
	return ""
}

func holds(when string, values map[string]any) bool {
	name, want, given := strings.Cut(when, "=")
	n, isNumber := values[name].(int)
	switch {
	case given:
		return fmt.Sprint(values[name]) == want
	case isNumber:
		return n != 0
	}
	return values[name] == true
}

// hint are values of one parameter with which all checks hold, where changing one of those in the check is enough.
func (m *Manifest) hint(c *Check, values map[string]any, w Wording) string {
	var ofDriver, ofCluster []*Parameter // what the driver gets is easier to change than nodes and GPUs
	for _, factor := range c.factors() {
		p := m.parameter(factor)
		switch {
		case isFlag(factor):
			ofDriver = append(ofDriver, &Parameter{Name: factor, Type: intType})
		case p != nil && p.Option != "":
			ofDriver = append(ofDriver, p)
		case p != nil:
			ofCluster = append(ofCluster, p)
		}
	}
	for _, p := range append(ofDriver, ofCluster...) {
		if fits := m.fitting(p, values); len(fits) > 0 {
			return w.Change(p.Name, fits)
		}
	}
	return w.Other
}

// searched bounds how far from a parameter's value another one is looked for.
const searched = 4096

// fitting are the nearest values of a parameter below and above its own with which all checks hold.
func (m *Manifest) fitting(p *Parameter, values map[string]any) (fits []int) {
	changed := maps.Clone(values)
	now, _ := values[p.Name].(int)
	least, most := p.bounds()
	for _, step := range []int{-1, 1} {
		for n := now + step; n >= max(least, now-searched) && n <= min(most, now+searched); n += step {
			changed[p.Name] = n
			if !slices.ContainsFunc(m.Checks, func(c Check) bool { return c.broken(changed, ofInit) != "" }) {
				fits = append(fits, n)
				break
			}
		}
	}
	return fits
}

// Rule is the check in words.
func (c *Check) Rule() string {
	relation := "is at most"
	switch {
	case c.Divides != nil:
		relation = "divides"
	case c.Equal != nil:
		relation = "is"
	}
	when := ""
	if c.When != "" {
		when = " (where " + c.When + ")"
	}
	return fmt.Sprintf("`%s` %s `%s`%s: %s", c.sides[0].text, relation, c.sides[1].text, when, c.Says)
}
