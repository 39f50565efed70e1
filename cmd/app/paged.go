package app

import (
	"io"

	"github.com/rayctl/rayctl/cmd/terminal"
)

// Paged calls show with where a text for a person goes: on a terminal through a pager if it is longer than the screen.
func (a *App) Paged(show func(w io.Writer) error) error {
	p := terminal.NewPager(a.Out, a.OutTTY, a.Getenv)
	if p == nil {
		return show(a.Out)
	}
	if err := show(p); err != nil {
		return err
	}
	return p.Close()
}
