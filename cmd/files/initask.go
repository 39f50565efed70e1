package files

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/templates/workloads"
)

// ask asks a person for the template and for the parameters that are not set, and writes the files.
func (o *initOptions) ask(a *app.App, f *found) error {
	questions := a.Questions()
	t, err := askTemplate(a, questions, f.all)
	if err != nil {
		return err
	}
	project, err := o.project()
	if err != nil {
		return err
	}
	set := o.set
	for _, p := range t.All(project) {
		if o.isSet(p.Name) {
			continue
		}
		answer, err := askParameter(questions, &p)
		if err != nil {
			return err
		}
		set = append(set, p.Name+"="+answer)
	}
	return o.make(a, t, set)
}

func (o *initOptions) isSet(name string) bool {
	if name == "launcher" && o.launcher != "" {
		return true
	}
	for _, pair := range o.set {
		if key, _, _ := strings.Cut(pair, "="); key == name {
			return true
		}
	}
	return false
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
		if t := named(all, text); t != nil {
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
