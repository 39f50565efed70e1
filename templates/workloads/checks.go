package workloads

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Check compares parameters of the type int. A side is a sum of products of parameters and numbers, such as nodes * gpus + 1.
type Check struct {
	Divides []string `yaml:"divides" json:"divides,omitempty"` // the first divides the second
	AtMost  []string `yaml:"atMost" json:"atMost,omitempty"`   // the first is at most the second
	Equal   []string `yaml:"equal" json:"equal,omitempty"`     // both are the same
	When    string   `yaml:"when" json:"when,omitempty"`       // PARAMETER or PARAMETER=VALUE: the check is for this value only
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
	if name, _, _ := strings.Cut(c.When, "="); c.When != "" && name != launcherParameter && m.parameter(name) == nil {
		return fmt.Errorf("a check is for a value of %s, which is no parameter", name)
	}
	return nil
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
			if _, err := strconv.ParseUint(factor, 10, 31); err != nil && (p == nil || p.Type != intType) {
				return s, fmt.Errorf("a side of a check is a sum of products of numbers and parameters of the type int, and %q is not: %q", text, factor)
			}
			product = append(product, factor)
		}
		s.products = append(s.products, product)
	}
	return s, nil
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
func (s sum) shown(values map[string]any) string { return s.text + " = " + s.value(values).String() }

// CheckValues refuses values that do not fit together.
func (m *Manifest) CheckValues(values map[string]any) error {
	for i := range m.Checks {
		c := &m.Checks[i]
		if relation := c.broken(values); relation != "" {
			return &ValueError{Msg: relation + ", but " + c.Says, Hint: m.hint(c, values)}
		}
	}
	return nil
}

// broken is what contradicts the check; "" if nothing does.
func (c *Check) broken(values map[string]any) string {
	if c.When != "" && !holds(c.When, values) {
		return ""
	}
	a, b := c.sides[0].value(values), c.sides[1].value(values)
	switch {
	case c.Divides != nil && (a.Sign() == 0 || new(big.Int).Rem(b, a).Sign() != 0):
		return fmt.Sprintf("%s is not divisible by %s", c.sides[1].shown(values), c.sides[0].shown(values))
	case c.AtMost != nil && a.Cmp(b) > 0:
		return fmt.Sprintf("%s is more than %s", c.sides[0].shown(values), c.sides[1].shown(values))
	case c.Equal != nil && a.Cmp(b) != 0:
		return fmt.Sprintf("%s is not %s", c.sides[0].shown(values), c.sides[1].shown(values))
	}
	return ""
}

func holds(when string, values map[string]any) bool {
	name, want, given := strings.Cut(when, "=")
	if !given {
		want = "true"
	}
	return fmt.Sprint(values[name]) == want
}

// hint are values of one parameter with which all checks hold, where changing one of those in the check is enough.
func (m *Manifest) hint(c *Check, values map[string]any) string {
	for _, side := range []sum{c.sides[1], c.sides[0]} {
		for _, product := range side.products {
			for _, factor := range product {
				if p := m.parameter(factor); p != nil {
					if fits := m.fitting(p, values); len(fits) > 0 {
						return "give " + strings.Join(fits, " or ")
					}
				}
			}
		}
	}
	return "set other values with --set"
}

// searched bounds how far from a parameter's value another one is looked for.
const searched = 4096

// fitting are the nearest values of a parameter below and above its own with which all checks hold.
func (m *Manifest) fitting(p *Parameter, values map[string]any) (fits []string) {
	changed := maps.Clone(values)
	now, _ := values[p.Name].(int)
	least, most := p.bounds()
	for _, step := range []int{-1, 1} {
		for n := now + step; n >= max(least, now-searched) && n <= min(most, now+searched); n += step {
			changed[p.Name] = n
			if !slices.ContainsFunc(m.Checks, func(c Check) bool { return c.broken(changed) != "" }) {
				fits = append(fits, fmt.Sprintf("--set %s=%d", p.Name, n))
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
