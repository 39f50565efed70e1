package cmd

import (
	"bytes"
	"os"
	"strings"
	"time"
)

// testApp is an isolated App: no terminal, no variables, no launchers.
func testApp() (a *App, out, err *bytes.Buffer) {
	out, err = &bytes.Buffer{}, &bytes.Buffer{}
	a = &App{
		Streams: Streams{In: strings.NewReader(""), Out: out, Err: err, Now: time.Now},
		Getenv:  func(string) string { return "" }, Notify: func(chan<- os.Signal, ...os.Signal) {}, Launchers: map[string]NewLauncher{},
	}
	a.ui = newUI(&a.Streams, a.Getenv)
	return a, out, err
}
