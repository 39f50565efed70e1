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
	// pinnedRay matches a line that names one version of Ray.
	pinnedRay = regexp.MustCompile(`^\s*ray\s*(?:\[[^\]]*\])?\s*==\s*([0-9][0-9A-Za-z.+]*)\s*(?:[;\\].*|--hash.*)?$`)
	// lockedRay matches Ray in a uv.lock.
	lockedRay = regexp.MustCompile(`(?m)^name = "ray"\r?\nversion = "([^"]+)"`)
)

// rayOf is the only version of Ray that the lines allow, with the line; "" if they name none.
func rayOf(lines []string) (version, line string) {
	for _, l := range lines {
		parsed := clientfiles.ParseLine(l)
		if m := pinnedRay.FindStringSubmatch(parsed.Text); m != nil {
			return m[1], l
		}
		if parsed.Lock {
			content, err := os.ReadFile(parsed.File)
			if m := lockedRay.FindSubmatch(content); err == nil && m != nil {
				return string(m[1]), l
			}
		}
	}
	return "", ""
}

// mostShown is how many lines a message has.
const mostShown = 6

// shown are the lines for a message.
func shown(lines []string) string {
	var out []string
	for _, l := range lines {
		text, _, _ := strings.Cut(clientfiles.ParseLine(l).Text, " --hash")
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
		line := clientfiles.ParseLine(l)
		text := line.Text
		switch {
		case line.File == "":
		case line.Editable:
			for _, name := range []string{"pyproject.toml", "setup.py", "setup.cfg"} {
				text += " " + content(filepath.Join(line.File, name))
			}
		default:
			text += " " + content(line.File)
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
		line := clientfiles.ParseLine(l)
		if line.Origin != "" && line.Name != "" && regexp.MustCompile(`(?i)(^|[^A-Za-z0-9._-])`+regexp.QuoteMeta(line.Name)+`($|[^A-Za-z0-9_-])`).MatchString(why) {
			return " (" + line.Origin + ")"
		}
	}
	return ""
}
