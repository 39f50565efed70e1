package app

import (
	"errors"
	"io"

	"github.com/rayctl/rayctl/cmd/terminal"
)

// Paged calls show with where its output goes: on a person's terminal through a pager if it is longer than the screen. Leaving the pager before the end is no error.
func (a *App) Paged(show func(w io.Writer) error) error {
	p := a.UI.Page(a.Out, a.Getenv)
	if p == nil {
		return show(a.UI.Output())
	}
	err := show(p)
	p.Close()
	if p.Left() || errors.Is(err, terminal.ErrPagerLeft) {
		return nil
	}
	return err
}
