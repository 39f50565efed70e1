// Package nodefiles copies files between this machine and a node of a cluster, or what an ended cluster left. They travel as tar streams (pack.go, unpack.go); nothing
// is written outside of the destination.
package nodefiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Shell runs commands on one node.
type Shell struct {
	ui   *terminal.UI
	e    execer
	id   launcher.ID
	node string
	said string // stderr of the last command
	// Report gets the progress of a copy; New shows it to the user.
	Report func(launcher.Progress)
}

// copying reports the progress of a copy. A total of 0 is unknown.
func (n *Shell) copying(what string, total int64) *launcher.Meter {
	return &launcher.Meter{Progress: launcher.Progress{Text: "copying " + what, Total: total}, Report: n.Report}
}

// execer is a launcher, or the host on which the files of an ended cluster are.
type execer interface {
	Exec(ctx context.Context, id launcher.ID, e launcher.ExecRequest) (int, error)
}

// New makes a Shell on a node of a cluster; "" is the head's.
func New(ui *terminal.UI, e execer, id launcher.ID, node string) *Shell {
	return &Shell{ui: ui, e: e, id: id, node: node, Report: ui.Transfer}
}

// warnLeftOut names the files that were not copied, in one line.
func (n *Shell) warnLeftOut(names []string) {
	if len(names) == 0 {
		return
	}
	text, more := "", ""
	if rest := len(names) - 5; rest > 0 {
		names, more = names[:5], fmt.Sprintf(" and %d more", rest)
	}
	for _, name := range names {
		text += " " + strconv.Quote(name) // a node's names may contain anything
	}
	n.ui.Warn("left out, as devices, sockets and fifos are:%s%s", text, more)
}

// run runs a command; the error has its stderr.
func (n *Shell) run(ctx context.Context, stdin io.Reader, stdout io.Writer, command ...string) error {
	var words strings.Builder
	code, err := n.e.Exec(ctx, n.id, launcher.ExecRequest{Node: n.node, Command: command, Stdin: stdin, Stdout: stdout, Stderr: &words})
	n.said = words.String()
	if err != nil {
		return err
	}
	if code != 0 {
		return launcher.Fail(runstate.CodeSpec, nil, n.look(), "on %s: %s", n.id, terminal.OrDash(terminal.OneLine(words.String())))
	}
	return nil
}

// look is the next step where a command fails there.
func (n *Shell) look() string {
	if _, ended := n.e.(onHost); ended { // exec runs nothing there
		return "name a file or directory that is there and that you may read"
	}
	words := []string{"rayctl", "exec", string(n.id)}
	if n.node != "" {
		words = append(words, "--node", n.node)
	}
	return "look there: `" + shellescape.QuoteCommand(append(words, "--", "ls", "-l")) + "`"
}

// Upload copies into dst if that is a directory there, else to dst; it returns the place.
func (n *Shell) Upload(ctx context.Context, src, dst string) (target string, err error) {
	real, err := filepath.EvalSymlinks(src)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", launcher.Fail(runstate.CodeSpec, err, "write NAME:PATH for a file of a cluster", "there is no file %s here", src)
	case err != nil:
		return "", launcher.Fail(runstate.CodeSpec, err, "name a file that you may read", "%v", err)
	}
	stage := "." + stageName()
	var said strings.Builder
	if err := n.run(ctx, nil, &said, "sh", "-c", beginUpload, "sh", dst, filepath.Base(absolute(src)), stage); err != nil {
		return "", err
	}
	target = strings.TrimSuffix(said.String(), "\n")
	parent, name := path.Split(target)
	placed := false
	defer func() {
		if !placed { // even if ctx has ended
			_ = n.run(context.WithoutCancel(ctx), nil, io.Discard, "rm", "-rf", "--", path.Join(parent, stage))
		}
	}()
	if _, err := os.Lstat(filepath.Join(parent, stage)); err == nil { // the node shares this directory with this machine
		if err := refuseSame(src, target); err != nil {
			return "", err
		}
	}
	total, err := treeSize(real)
	if err != nil {
		return "", err
	}
	r, w := io.Pipe()
	p := newPacker(w, n.copying(src, total))
	packed := make(chan error, 1)
	go func() {
		err := p.Pack(real, name)
		w.CloseWithError(err)
		packed <- err
	}()
	err = n.run(ctx, r, io.Discard, "sh", "-c", finishUpload, "sh", parent, name, stage)
	r.CloseWithError(errors.New("tar on the node ended"))
	if perr := <-packed; err == nil {
		err = perr
	}
	if err == nil {
		placed = true
		n.warnLeftOut(p.LeftOut)
	}
	return target, err
}

// refuseSame refuses to copy a file or directory onto or into itself. Both paths are of this machine.
func refuseSame(src, target string) error {
	from, err := os.Stat(src)
	if err != nil {
		return nil //nolint:nilerr // a link to nothing is the same as nothing
	}
	if to, err := os.Stat(target); err == nil && os.SameFile(from, to) {
		return launcher.Fail(runstate.CodeSpec, nil, "name another destination", "%s and %s are the same file or directory: nothing was copied", src, target)
	}
	for dir := filepath.Dir(target); from.IsDir(); dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if to, err := os.Stat(dir); err == nil && os.SameFile(from, to) {
			return launcher.Fail(runstate.CodeSpec, nil, "name a destination outside of it", "%s cannot be copied into itself, as %s", src, target)
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return nil
}

// Download copies into dst if that is a directory here, else to dst; it returns the place.
func (n *Shell) Download(ctx context.Context, src, dst string) (string, error) {
	parent, name := path.Split(strings.TrimRight(src, "/"))
	if parent == "" {
		parent = "."
	}
	if name == "" {
		return "", app.UsageError("name a file or directory in it", "the root directory cannot be copied")
	}
	u := newUnpacker(name)
	if err := u.Open(dst); err != nil {
		return "", err
	}
	defer u.Close()
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := u.Entries(n.copying(src, 0).Reader(r))
		r.CloseWithError(err)
		written <- err
	}()
	err := n.run(ctx, nil, w, "sh", "-c", sendDownload, "sh", u.Marker, u.Path, parent, name)
	w.CloseWithError(err)
	if werr := <-written; err == nil || errors.Is(err, werr) { // a local error also ends the node's tar, whose error is less precise
		err = werr
	}
	if err == nil {
		n.warnLeftOut(append(u.LeftOut, ignored(n.said)...))
	}
	return u.Path, err
}

// ignored returns the sockets that the node's tar left out, reported as "tar: NAME: socket ignored".
func ignored(said string) (names []string) {
	for line := range strings.Lines(said) {
		if name, ok := strings.CutSuffix(strings.TrimSpace(line), ": socket ignored"); ok {
			names = append(names, strings.TrimPrefix(name, "tar: "))
		}
	}
	return names
}
