package pack

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
)

// keepFor is how long a package stays after its last use.
const keepFor = 7 * 24 * time.Hour

// cache holds packages, and for each directory the state of its files at the last packing. All of it may be lost at any time.
type cache struct {
	dir    string
	opened time.Time
}

// memory is the cached knowledge of one directory.
type memory struct {
	States string `json:"states"` // digest of the list of files with their states
	URI    string `json:"uri"`
	Sum    string `json:"sum"` // SHA-256 of the package's own bytes, in hexadecimal
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
}

func openCache(dir string) (*cache, error) {
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find the cache directory: %w", err)
		}
		dir = filepath.Join(user, "rayctl", "packages")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the cache directory: %w", err)
	}
	return &cache{dir: dir, opened: time.Now()}, nil
}

// recall returns the cached package of a source with unchanged files, or nil. It reads the whole package: after a crash of the machine, a full disk
// or a change by others it may be incomplete, and Ray would fail to unpack it on each node at every launch.
func (c *cache) recall(src source, files []file) *Package {
	content, err := os.ReadFile(c.memoryPath(src))
	if err != nil {
		return nil
	}
	var m memory
	if json.Unmarshal(content, &m) != nil || m.States != digest(files) {
		return nil
	}
	path := c.packagePath(m.URI)
	sum, size, err := sumOf(path)
	if err != nil || sum != m.Sum {
		return nil
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // last use, for prune; errors do not matter
	return &Package{URI: m.URI, Path: path, Size: size, Files: m.Files, Bytes: m.Bytes, Reused: true, sum: sum}
}

// remember records the package of a source, unless a file is so young that a further change might not show in its times.
// If writing fails the source is packed again next time.
func (c *cache) remember(src source, files []file, pkg *Package) {
	for _, f := range files {
		if f.state.young(c.opened) {
			return
		}
	}
	content, err := json.Marshal(memory{States: digest(files), URI: pkg.URI, Sum: pkg.sum, Files: pkg.Files, Bytes: pkg.Bytes})
	if err != nil {
		return
	}
	_ = renameio.WriteFile(c.memoryPath(src), content, 0o600, renameio.WithTempDir(c.dir))
}

// young reports whether the file was changed so shortly before that another change might leave the same times. File
// systems' clocks tick every few milliseconds, old and network ones' every one or two seconds: then times are whole seconds.
func (s state) young(now time.Time) bool {
	newest := max(s.mtime, s.ctime)
	tick := 100 * time.Millisecond
	if newest%int64(time.Second) == 0 {
		tick = 2100 * time.Millisecond
	}
	return newest > now.Add(-tick).UnixNano()
}

// sumOf reads a file.
func sumOf(path string) (sum string, size int64, err error) {
	in, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer in.Close()
	hash := sha256.New()
	if size, err = io.Copy(hash, in); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(hash.Sum(nil)), size, nil
}

// prune removes packages and memories that were unused for long, and leftovers of crashes.
func (c *cache) prune() {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() && c.opened.Sub(info.ModTime()) > keepFor {
			_ = os.Remove(filepath.Join(c.dir, entry.Name()))
		}
	}
}

func (c *cache) memoryPath(src source) string {
	sum := sha256.Sum256([]byte(src.root + "\x00" + src.prefix + "\x00" + src.only))
	return filepath.Join(c.dir, hex.EncodeToString(sum[:16])+".json")
}

func (c *cache) packagePath(uri string) string {
	return filepath.Join(c.dir, filepath.Base(uri))
}

// digest identifies a list of files and their states.
func digest(files []file) string {
	hash := sha256.New()
	var buffer []byte
	for _, f := range files {
		buffer = append(buffer[:0], f.name...)
		buffer = append(buffer, 0)
		buffer = binary.LittleEndian.AppendUint32(buffer, uint32(f.mode))
		for _, n := range []int64{f.state.size, f.state.mtime, f.state.ctime, int64(f.state.inode)} {
			buffer = binary.LittleEndian.AppendUint64(buffer, uint64(n))
		}
		hash.Write(buffer)
	}
	return hex.EncodeToString(hash.Sum(nil))
}
