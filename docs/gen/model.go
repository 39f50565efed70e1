package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// pythonModel is what the keeper's Python knows of package runstate.
func pythonModel(string) ([]byte, error) {
	var codes, retryable []string
	for _, c := range runstate.Causes {
		if c.Origin != "" {
			continue
		}
		codes = append(codes, fmt.Sprintf("    %q: %d,\n", c.Name, c.Code))
		if c.Retryable {
			retryable = append(retryable, fmt.Sprintf("%q", c.Name))
		}
	}
	return fmt.Appendf(nil, `"""What the keeper knows of a run's end. Made from launcher/runstate by "make docs"."""

# Exit codes of "rayctl run" by the cause of the end, where the code is not a program's own.
CODES = {
%s}
UNKNOWN_CAUSE = %d
# Causes after which the same command may succeed if it is repeated.
RETRYABLE = (%s)
# How a keeper's sentence begins when a signal ended it.
SIGNALLED = %q
# How the message of a node's event begins that was lost and started again before Ray had seen its loss.
STARTED_AGAIN = %q
`, strings.Join(codes, ""), runstate.CodeInternal, strings.Join(retryable, ", "), runstate.Signalled, runstate.StartedAgain), nil
}

// exitCodes puts the tables of exit codes and causes between their marks in a page that is otherwise written by hand.
func exitCodes(dir string) ([]byte, error) {
	page, err := os.ReadFile(filepath.Join(dir, flowPage))
	if err != nil {
		return nil, err
	}
	var codes, causes strings.Builder
	for _, c := range runstate.ExitCodes {
		fmt.Fprintf(&codes, "| %d | %s |\n", c.Code, c.Meaning)
	}
	for _, c := range runstate.Causes {
		code, again := "the driver's", "no"
		switch c.Origin {
		case "":
			code = fmt.Sprint(c.Code)
		case runstate.OriginPrepare:
			code = "the command's"
		}
		if c.Retryable {
			again = "yes"
		}
		fmt.Fprintf(&causes, "| `%s` | %s | %s | %s |\n", c.Name, code, again, c.Meaning)
	}
	page, err = between(page, "exit codes", "| code | meaning |\n|---|---|\n"+codes.String())
	if err != nil {
		return nil, err
	}
	return between(page, "causes", "| cause | exit code | retryable | meaning |\n|---|---|---|---|\n"+causes.String())
}

// between replaces what stands between the marks of a name.
func between(page []byte, name, text string) ([]byte, error) {
	from, to := "<!-- made by make docs: "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, begins := bytes.Cut(page, []byte(from))
	_, after, ends := bytes.Cut(rest, []byte(to))
	if !begins || !ends {
		return nil, fmt.Errorf("%s has no marks for %q", flowPage, name)
	}
	return []byte(string(before) + from + text + to + string(after)), nil
}
