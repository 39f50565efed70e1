// Package files has the verbs on files: cp, init, render and schema.
package files

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
	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/tarstream"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

type cpOptions struct {
	config   app.ConfigFlags
	node     string
	from, to place
}

// place is a path on this machine or, with remote, on a node of a cluster.
type place struct {
	remote  bool
	cluster string // "": the default one
	path    string
}

// NewCp is `rayctl cp`.
func NewCp(a *app.App) *cobra.Command {
	o := &cpOptions{}
	c := &cobra.Command{
		Use:   "cp SRC DST",
		Short: "Copy a file or directory to or from a node, or a run's results",
		Long: "cp copies between this machine and a node; one side is NAME:PATH, or :PATH for the default cluster. As with cp -r, a directory goes into DST if that\n" +
			"is a directory, else becomes DST. Existing files are replaced only after the whole copy has arrived, and nothing is copied onto itself. The node needs tar.\n" +
			"A link that you name is followed: as SRC, and as DST if it leads to a directory. Links inside a directory stay links, a file replaces a link in its\n" +
			"place, and nothing is written outside of the target.\n" +
			"NAME: without a path means the content of the run's output directory (RAYCTL_OUTPUT_DIR). It is copied into DST, which is created if it is missing;\n" +
			"repeating the copy replaces it. A relative PATH to copy from is below the output directory, if it is there. This also works after the run's end. Then an\n" +
			"absolute PATH can be any other file that the run left on the login node or on this machine. On Kubernetes only mounted storage keeps files after the end.",
		Example: "  rayctl cp grpo-x1f3a: results\n  rayctl cp dev:/tmp/result.json .\n  rayctl cp model/ :/scratch/model --node trainer-1",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return app.UsageError("write it like `rayctl cp dev:/tmp/x .`", "`rayctl cp` takes a source and a destination")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.from, o.to = parsePlace(args[0]), parsePlace(args[1])
			return a.Action(func(ctx context.Context) error { return runCp(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: completePlaces(a),
	}
	o.config.AddSelection(c)
	c.Flags().StringVar(&o.node, "node", "", "name of the `NODE` (default: the head's)")
	a.CompleteNodes(c)
	app.Accept(c.Flags(), "recursive", "r", "directories are copied whole")
	return c
}

// parsePlace treats text with a colon before any slash as a path of a cluster.
func parsePlace(text string) place {
	name, rest, ok := strings.Cut(text, ":")
	if !ok || strings.ContainsAny(name, `/\`) {
		return place{path: text}
	}
	return place{remote: true, cluster: name, path: rest}
}

// runCp copies in one direction.
func runCp(ctx context.Context, a *app.App, o *cpOptions) error {
	if err := o.onePlaceEach(); err != nil {
		return err
	}
	remote := o.from
	if o.to.remote {
		remote = o.to
	}
	c, err := a.Find(ctx, app.FindOptions{Name: remote.cluster, Config: &o.config, Ended: o.from.remote})
	if err != nil {
		return err
	}
	e, err := app.Ability[launcher.Execer](c.Launcher, "cp")
	if err != nil {
		return err
	}
	n := &nodeShell{ui: a.UI, e: e, id: c.ID, node: o.node}
	src, target := o.from.path, ""
	if o.to.remote && remote.path == "" {
		if o.to.path, err = n.outputOf(ctx, c); err != nil {
			return err
		}
	}
	if o.to.remote {
		target, err = n.upload(ctx, src, o.to.path)
		target = string(c.ID) + ":" + target
	} else if src, err = n.source(ctx, c, src); err == nil {
		if dst := strings.TrimRight(o.to.path, "/"); o.from.path == "" && dst != "" {
			o.to.path = dst // it is made if it is missing
		}
		target, err = n.download(ctx, src, o.to.path)
		src = string(c.ID) + ":" + src
	}
	if err != nil {
		return err
	}
	a.UI.Note("copied %s to %s", src, target)
	return nil
}

// onePlaceEach checks that one side is here and the other on a cluster.
func (o *cpOptions) onePlaceEach() error {
	if o.from.remote != o.to.remote {
		return nil
	}
	if dir, _, colon := strings.Cut(o.from.path, ":"); colon && app.IsShared(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return app.UsageError("`cp -r "+shellescape.Quote(dir)+" DST` copies it, and `rayctl logs "+shellescape.Quote(dir)+"` shows the output", "%s is a directory of this machine, with what is shared of a run", dir)
		}
	}
	if _, err := os.Lstat(o.from.path); !o.from.remote && err != nil && spec.CheckName(o.from.path) == nil {
		return app.UsageError(fmt.Sprintf("`rayctl cp %s: DST` copies the output directory of a run, NAME:PATH a file", o.from.path), "there is no file %s here", o.from.path)
	}
	return app.UsageError("write one as NAME:PATH", "exactly one of %q and %q must be a path on a cluster", o.from.path, o.to.path)
}

// nodeShell runs commands on one node.
type nodeShell struct {
	ui   *terminal.UI
	e    launcher.Execer
	id   launcher.ID
	node string
	said string // stderr of the last command
}

// copying reports the progress of a copy to the user. A total of 0 is unknown.
func (n *nodeShell) copying(what string, total int64) *launcher.Meter {
	return &launcher.Meter{Progress: launcher.Progress{Text: "copying " + what, Total: total}, Report: n.ui.Transfer}
}

// warnLeftOut names the files that were not copied, in one line.
func (n *nodeShell) warnLeftOut(names []string) {
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
func (n *nodeShell) run(ctx context.Context, stdin io.Reader, stdout io.Writer, command ...string) error {
	var words strings.Builder
	code, err := n.e.Exec(ctx, n.id, launcher.ExecRequest{Node: n.node, Command: command, Stdin: stdin, Stdout: stdout, Stderr: &words})
	n.said = words.String()
	if err != nil {
		return err
	}
	if code != 0 {
		return launcher.Fail(runstate.CodeSpec, nil, "", "on %s: %s", n.id, terminal.OrDash(terminal.OneLine(words.String())))
	}
	return nil
}

// upload copies into dst if that is a directory there, else to dst; it returns the place.
func (n *nodeShell) upload(ctx context.Context, src, dst string) (target string, err error) {
	real, err := filepath.EvalSymlinks(src)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", launcher.Fail(runstate.CodeSpec, err, "", "there is no file %s here", src)
	case err != nil:
		return "", launcher.Fail(runstate.CodeSpec, err, "", "%v", err)
	}
	stage := "." + tarstream.StageName()
	var said strings.Builder
	if err := n.run(ctx, nil, &said, "sh", "-c", beginUpload, "sh", dst, filepath.Base(tarstream.Absolute(src)), stage); err != nil {
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
	total, err := tarstream.TreeSize(real)
	if err != nil {
		return "", err
	}
	r, w := io.Pipe()
	p := tarstream.NewPacker(w, n.copying(src, total))
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
		return launcher.Fail(runstate.CodeSpec, nil, "", "%s and %s are the same: nothing was copied", src, target)
	}
	for dir := filepath.Dir(target); from.IsDir(); dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if to, err := os.Stat(dir); err == nil && os.SameFile(from, to) {
			return launcher.Fail(runstate.CodeSpec, nil, "", "%s cannot be copied into itself, as %s", src, target)
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return nil
}

// download copies into dst if that is a directory here, else to dst; it returns the place.
func (n *nodeShell) download(ctx context.Context, src, dst string) (string, error) {
	parent, name := path.Split(strings.TrimRight(src, "/"))
	if parent == "" {
		parent = "."
	}
	if name == "" {
		return "", app.UsageError("", "the root directory cannot be copied")
	}
	u := tarstream.NewUnpacker(name)
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
