// Package keeperzip holds what runs beside a cluster: the keeper and the supervisors of Ray nodes (docs/keeper.md). They are Python, standard
// library only, because every machine with Ray has Python, and one zip file that Python runs as it is (Python's manual, "zipapp").
package keeperzip

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rayctl/rayctl/launcher/sharedfile"
)

// Roles of the program, its first argument (__main__.py). Those that only one launcher has are declared there.
const (
	Keeper     = "keeper" // arguments: RUN_DIR
	Supervisor = "node"   // arguments: RUN_DIR, NAME or --slurm
	Share      = "share"  // argument: RUN_DIR; copies what the orders' shareDir gets, for a keeper that was killed
	Pod        = "pod"    // runs the keeper in its pod, and hands its result to the record
	Record     = "record" // the record's program
	Report     = "report" // reports to the keeper that a pod's setup failed
)

// File is the name of the zip file.
const File = "keeper.pyz"

//go:embed __main__.py rayctl_keeper/*.py rayctl_keeper/*/*.py rayctl_keeper/*/*/*.py
var sources embed.FS

// apart are sources that run outside the zip file.
//
//go:embed slurm_files.py
var apart embed.FS

// Source is the text of one source file, for a program that runs without the zip file. The path is below keeper/.
func Source(path string) string {
	text, err := sources.ReadFile(path)
	if err != nil {
		text, err = apart.ReadFile(path)
	}
	if err != nil {
		panic("keeper: there is no such source: " + err.Error()) // the paths are constants of the launchers
	}
	return string(text)
}

// beginning is the time of all files: what is embedded has none, and this is the first that a zip file can have.
var beginning = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Bytes is the zip file. The same sources make the same bytes.
var Bytes = sync.OnceValue(func() []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	err := fs.WalkDir(sources, ".", func(path string, entry fs.DirEntry, err error) error { // in the order of names
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := sources.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := w.CreateHeader(&zip.FileHeader{Name: path, Method: zip.Deflate, Modified: beginning})
		if err != nil {
			return err
		}
		_, err = f.Write(content)
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic("keeper: the embedded files cannot be packed: " + err.Error()) // impossible: they are part of the binary
	}
	return out.Bytes()
})

// hash names this version of the zip file: 16 hexadecimal digits.
var hash = sync.OnceValue(func() string {
	sum := sha256.Sum256(Bytes())
	return hex.EncodeToString(sum[:])[:16]
})

// Directory is the name of the directory that has this version of the zip file, among others.
func Directory() string { return "keeper-" + hash() }

// Write writes the zip file into a directory of its version below root, unless it is there, and returns its path. Two writers at once are fine: the
// file appears whole or not at all. Directories are made as needed, mode 0755.
func Write(root string) (string, error) {
	dir := filepath.Join(root, Directory())
	target := filepath.Join(dir, File)
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the directory of the keeper: %w", err)
	}
	if err := sharedfile.Write(target, Bytes(), 0o644); err != nil {
		return "", fmt.Errorf("write the keeper: %w", err)
	}
	return target, nil
}
