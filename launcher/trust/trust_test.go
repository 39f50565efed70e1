package trust_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/trust"
	"github.com/rayctl/rayctl/test/needs"
)

// TestCheck checks paths against the users who could change them. test/e2e covers what unprivileged users see.
func TestCheck(t *testing.T) {
	needs.Root(t) // changes owners of files
	const other = 12345
	t.Setenv("HOME", "/nosuch")
	for _, c := range []struct {
		name  string
		build func(t *testing.T, dir string) error // makes dir/way/file
		want  string
	}{
		{"own", func(*testing.T, string) error { return nil }, ""},
		{"another's file", func(_ *testing.T, d string) error { return os.Chown(d+"/way/file", other, other) }, "way/file belongs to user 12345"},
		{"another's directory", func(_ *testing.T, d string) error { return os.Chown(d+"/way", other, other) }, "way belongs to user 12345"},
		{"file that all may write", func(_ *testing.T, d string) error { return os.Chmod(d+"/way/file", 0o666) }, "way/file can be written by every user"},
		{"directory that all may write", func(_ *testing.T, d string) error { return os.Chmod(d, 0o777) }, "can be written by every user"},
		{"sticky directory", func(_ *testing.T, d string) error { return os.Chmod(d, 0o777|fs.ModeSticky) }, ""},
		{"group without others", func(_ *testing.T, d string) error {
			return errors.Join(os.Chmod(d, 0o775), os.Chmod(d+"/way/file", 0o664))
		}, ""},
		{"group with others", func(_ *testing.T, d string) error { return errors.Join(os.Chown(d, 0, 100), os.Chmod(d, 0o775)) }, "can be written by the group users"},
		{"link", func(_ *testing.T, d string) error {
			return errors.Join(os.Rename(d+"/way", d+"/real"), os.Symlink("./x/../real", d+"/way"), os.Mkdir(d+"/x", 0o755))
		}, ""},
		{"another's link", func(_ *testing.T, d string) error {
			return errors.Join(os.Rename(d+"/way", d+"/real"), os.Symlink("real", d+"/way"), os.Lchown(d+"/way", other, other))
		}, "way belongs to user 12345"},
		{"link through another's directory", func(t *testing.T, d string) error {
			return errors.Join(os.Mkdir(d+"/x", 0o755), os.Chown(d+"/x", other, other), os.Rename(d+"/way", d+"/real"), os.Symlink(d+"/x/../real", d+"/way"))
		}, "x belongs to user 12345"},
		{"circle", func(_ *testing.T, d string) error {
			return errors.Join(os.RemoveAll(d+"/way"), os.Symlink("way", d+"/way"))
		}, "too many levels of symbolic links"},
		{"nothing", func(_ *testing.T, d string) error { return os.Remove(d + "/way/file") }, "no such file"},
		{"home", func(t *testing.T, d string) error { // who can replace the home directory does not need rayctl
			t.Setenv("HOME", d+"/way")
			return os.Chmod(d, 0o777)
		}, ""},
		{"home of the host's user", func(t *testing.T, d string) error {
			t.Setenv("HOME", d+"/way")
			return errors.Join(os.Chown(d+"/way", other, other), os.Chown(d+"/way/file", other, other))
		}, ""},
		{"open home", func(t *testing.T, d string) error {
			t.Setenv("HOME", d+"/way")
			return os.Chmod(d+"/way", 0o777)
		}, "way can be written by every user"},
		{"out of home", func(t *testing.T, d string) error {
			t.Setenv("HOME", d+"/home")
			return errors.Join(os.Mkdir(d+"/home", 0o755), os.Rename(d+"/way", d+"/real"), os.Symlink("home/../real", d+"/way"), os.Chown(d+"/real", other, other))
		}, "real belongs to user 12345"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := errors.Join(os.Mkdir(dir+"/way", 0o755), os.WriteFile(dir+"/way/file", nil, 0o644), c.build(t, dir)); err != nil {
				t.Fatal(err)
			}
			err := trust.Check(filepath.Join(dir, "way", "file"))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestExplain: where everybody can write to the home directory, the fix needs no condition: it is the user's own.
func TestExplain(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	dir := home + "/d"
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ open, reason, fix string }{
		{home, "your home directory " + home + " can be written by every user", "run `chmod go-w " + home + "`, after which only you can write there"},
		{dir, dir + " can be written by every user", "`chmod go-w " + dir + "` if it is yours alone"},
	} {
		if err := os.Chmod(c.open, 0o777); err != nil {
			t.Fatal(err)
		}
		if reason, fix := trust.Explain(trust.Check(dir)); reason != c.reason || fix != c.fix {
			t.Errorf("%q, %q; want %q, %q", reason, fix, c.reason, c.fix)
		}
		if err := os.Chmod(c.open, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
