package rayenv

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/launcher/spec/clientfiles"
)

var (
	// localFile matches the absolute path of this machine in a line of requirements, which may be quoted.
	localFile = regexp.MustCompile(`^\s*(?:(?:--editable|--constraint|--requirement|--find-links|-e|-c|-r|-f)[\s=]*|[A-Za-z0-9._-]+(?:\[[^\]]*\])?\s*@\s*file://)?(?:"(/[^"]+)"|'(/[^']+)'|(/[^\s;"'\[]+))`)
	// pinnedRay matches a line that names one version of Ray.
	pinnedRay = regexp.MustCompile(`^\s*ray\s*(?:\[[^\]]*\])?\s*==\s*([0-9][0-9A-Za-z.+]*)\s*(?:[;\\].*|--hash.*)?$`)
	// lockedRay matches Ray in a uv.lock.
	lockedRay = regexp.MustCompile(`(?m)^name = "ray"\r?\nversion = "([^"]+)"`)
	editable  = regexp.MustCompile(`^\s*(-e|--editable)\b`)
	nameAhead = regexp.MustCompile(`^\s*([A-Za-z0-9][A-Za-z0-9._-]*)`)
)

// rayOf is the only version of Ray that the lines allow, with the line; "" if they name none.
func rayOf(lines []string) (version, line string) {
	for _, l := range lines {
		text := clientfiles.WithoutOrigin(l)
		if m := pinnedRay.FindStringSubmatch(text); m != nil {
			return m[1], l
		}
		if file := uvLock(text); file != "" {
			content, err := os.ReadFile(file)
			if m := lockedRay.FindSubmatch(content); err == nil && m != nil {
				return string(m[1]), l
			}
		}
	}
	return "", ""
}

// uvLock is the uv.lock that a line names; "" if it names none.
func uvLock(line string) string {
	path, included := strings.CutPrefix(clientfiles.WithoutOrigin(line), "-r ")
	if included && filepath.Base(path) == clientfiles.UvLock {
		return path
	}
	return ""
}

// fileOf is the file or directory of this machine that a line names; "" if it names none.
func fileOf(line string) string {
	if lock := uvLock(line); lock != "" {
		return lock
	}
	if m := localFile.FindStringSubmatch(line); m != nil {
		return m[1] + m[2] + m[3] // one of them
	}
	return ""
}

// mostShown is how many lines a message has.
const mostShown = 6

// shown are the lines for a message.
func shown(lines []string) string {
	var out []string
	for _, l := range lines {
		text, _, _ := strings.Cut(clientfiles.WithoutOrigin(l), " --hash")
		out = append(out, strings.TrimSpace(text))
	}
	if len(out) > mostShown {
		out = append(out[:mostShown], fmt.Sprintf("and %d more", len(out)-mostShown))
	}
	return strings.Join(out, ", ")
}

// keyOf is a checksum of what the lines ask for, with the content of the files of this machine that they name. Their order does not count.
func keyOf(lock string, lines []string) string {
	parts := make([]string, 0, len(lines))
	for _, l := range lines {
		text := clientfiles.WithoutOrigin(l)
		switch file := fileOf(text); {
		case file == "":
		case editable.MatchString(text): // its code is used where it is
			for _, name := range []string{"pyproject.toml", "setup.py", "setup.cfg"} {
				text += " " + content(filepath.Join(file, name))
			}
		default:
			text += " " + content(file)
		}
		parts = append(parts, text)
	}
	slices.Sort(parts)
	parts = slices.Compact(parts)
	if lock != "" {
		parts = append(parts, lock)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:])[:8]
}

// built are directories in a project that its installation makes or that are not part of it.
var built = []string{"build", "dist", "__pycache__", "node_modules", "venv"}

// content is a checksum of a file, or of the names, sizes and times of a directory's files. What cannot be read has none: the installer says why.
func content(path string) string {
	sum := sha256.New()
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	if !info.IsDir() {
		file, err := os.Open(path)
		if err != nil {
			return ""
		}
		defer file.Close()
		if _, err := io.Copy(sum, file); err != nil {
			return ""
		}
		return hex.EncodeToString(sum.Sum(nil))
	}
	_ = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // the rest counts
		case d.IsDir() && name != path && (strings.HasPrefix(d.Name(), ".") || strings.HasSuffix(d.Name(), ".egg-info") || slices.Contains(built, d.Name())):
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		if info, err := d.Info(); err == nil {
			fmt.Fprintln(sum, name, info.Size(), info.ModTime().UnixNano())
		}
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil))
}

// source is where the line stands that an installer's reason is about, as in " (requirements.txt:3)"; "" if that is not known.
func source(why string, lines []string) string {
	for _, l := range lines {
		origin := clientfiles.Origin(l)
		name := nameAhead.FindString(l)
		if origin != "" && name != "" && regexp.MustCompile(`(?i)(^|[^A-Za-z0-9._-])`+regexp.QuoteMeta(strings.TrimSpace(name))+`($|[^A-Za-z0-9_-])`).MatchString(why) {
			return " (" + origin + ")"
		}
	}
	return ""
}
