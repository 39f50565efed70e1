package files

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/templates/workloads"
)

// ask asks a person for the template and for the parameters that are not set, and writes the files. Sizes that do not fit together are asked for again.
func (o *initOptions) ask(a *app.App, f *found) error {
	questions, t := a.Questions(), f.one
	if t == nil {
		var err error
		if t, err = askTemplate(a, questions, f.all); err != nil {
			return err
		}
	}
	project, err := o.project()
	if err != nil {
		return err
	}
	if _, err := t.Values(o.given(), project); err != nil {
		return refused(err)
	}
	answers := answers{template: t, project: project, set: slices.Clone(o.given())}
	asked := o.asked(a, t, project)
	if len(asked) > 0 {
		a.UI.Note("Enter takes the value in brackets; -y takes them all")
	}
	for len(asked) > 0 {
		if err := answers.ask(questions, asked); err != nil {
			return err
		}
		values, err := t.Values(answers.set, project)
		if err != nil { // each answer is right by itself, except for the name
			asked = slices.DeleteFunc(asked, func(p workloads.Parameter) bool { return p.Name != "name" })
		} else if broken := t.Compare(values, ofAnswers); broken != nil {
			asked, err = numbers(t, values), broken
		} else {
			break
		}
		a.UI.Note("%v", err)
	}
	return o.make(a, t, answers.set)
}

// numbers are the parameters that checks compare, also those of the command line, with their values as defaults.
func numbers(t *workloads.Template, values map[string]any) (all []workloads.Parameter) {
	for _, p := range t.Parameters {
		if p.Type == "int" {
			p.Default = values[p.Name]
			all = append(all, p)
		}
	}
	return all
}

// ofAnswers is how the template's checks speak of answers.
var ofAnswers = workloads.Wording{
	Name: func(parameter string) string { return parameter },
	Change: func(parameter string, to []int) string {
		return "give " + workloads.Or(to) + " for " + parameter
	},
	Other: "give other numbers",
}

// asked are the parameters to ask for, where somebody decides them: the launcher first, on which others depend.
func (o *initOptions) asked(a *app.App, t *workloads.Template, project string) (all []workloads.Parameter) {
	for _, p := range t.All(project) {
		switch {
		case o.isSet(p.Name), p.Name == versionParameter && a.Source != "", p.Name == "name" && len(t.Launchers) == 0: // the files of a CI system have no cluster's name
		case p.Name == "launcher":
			all = slices.Insert(all, 0, p)
		default:
			all = append(all, p)
		}
	}
	return all
}

func (o *initOptions) isSet(name string) bool {
	return sets(o.given(), name)
}

// sets reports whether one of the values, KEY=VALUE, is the parameter's.
func sets(values []string, name string) bool {
	return slices.ContainsFunc(values, func(pair string) bool { return strings.HasPrefix(pair, name+"=") })
}

// answers are the values so far.
type answers struct {
	template *workloads.Template
	project  string
	set      []string // as for --set; the last one of a parameter counts
}

// ask asks for parameters, except for those that the answers before make pointless. A later round has the answers of the earlier one as defaults.
func (s *answers) ask(questions *app.Questions, parameters []workloads.Parameter) error {
	for i := range parameters {
		p := &parameters[i]
		if values, err := s.template.Values(s.set, s.project); err == nil && !p.Concerns(values) {
			continue
		}
		text, err := askParameter(questions, p)
		if err != nil {
			return err
		}
		p.Default = text
		s.set = append(s.set, p.Name+"="+text)
	}
	return nil
}

// askTemplate shows the list; Enter is the first.
func askTemplate(a *app.App, questions *app.Questions, all []*workloads.Template) (*workloads.Template, error) {
	width := nameWidth(all)
	for i, t := range all {
		fmt.Fprintf(a.Err, "%2d  %-*s  %s\n", i+1, width, t.Name, t.Title)
	}
	for prompt := "Which template? [" + all[0].Name + "] "; ; prompt = "Write its number or its name: " {
		text, err := answer(questions, prompt)
		if err != nil {
			return nil, err
		}
		if text == "" {
			return all[0], nil
		}
		if n, err := strconv.Atoi(text); err == nil && n > 0 && n <= len(all) {
			return all[n-1], nil
		}
		if t := workloads.Named(all, text); t != nil {
			return t, nil
		}
	}
}

// askParameter asks until the value fits; Enter is the default.
func askParameter(questions *app.Questions, p *workloads.Parameter) (string, error) {
	asked := fmt.Sprintf("%s: %s", p.Name, p.Help)
	if p.Type == "choice" {
		asked += " (" + p.Takes() + ")"
	}
	for prompt := fmt.Sprintf("%s [%v] ", asked, p.Default); ; {
		text, err := answer(questions, prompt)
		if err != nil {
			return "", err
		}
		if text == "" {
			return fmt.Sprint(p.Default), nil
		}
		_, err = p.Value(text)
		if err == nil {
			return text, nil
		}
		prompt = err.Error() + ": "
	}
}

// answer is one answer. Where the input ends, nothing is written.
func answer(questions *app.Questions, prompt string) (string, error) {
	text, more := questions.Ask(prompt)
	if !more {
		return "", app.UsageError("answer them, or name the template: `rayctl init TEMPLATE`", "the questions are not answered, and nothing is written")
	}
	return text, nil
}
