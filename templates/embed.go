// Package templates holds the files that rayctl puts beside a cluster: the keeper and the supervisor of Ray nodes
// (docs/keeper.md). They are Python, standard library only, because every machine with Ray has Python.
package templates

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed keeper*.py node*.py rayhook/*.py slurm_account.py slurm_after.py slurm_batch.py slurm_exec.py slurm_killed.py slurm_relay.py slurm_start.py
var keeperFiles embed.FS

// Names of the programs in the directory that WriteKeeper fills.
const (
	Keeper     = "keeper.py" // argument: RUN_DIR
	Supervisor = "node.py"   // arguments: RUN_DIR, INDEX or --slurm
)

// KeeperFiles returns the keeper and everything it imports: content by slash-separated path.
func KeeperFiles() map[string][]byte {
	files := map[string][]byte{}
	err := fs.WalkDir(keeperFiles, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[path], err = keeperFiles.ReadFile(path)
		return err
	})
	if err != nil {
		panic("templates: embedded files cannot be read: " + err.Error()) // impossible: they are part of the binary
	}
	return files
}

// KeeperHash names this version of the files: 16 hexadecimal digits.
func KeeperHash() string {
	sum := sha256.New()
	files := KeeperFiles()
	err := fs.WalkDir(keeperFiles, ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			fmt.Fprintf(sum, "%s\x00%d\x00%s", path, len(files[path]), files[path])
		}
		return err
	})
	if err != nil {
		panic("templates: embedded files cannot be read: " + err.Error())
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// WriteKeeper writes the files into root/keeper-HASH, unless they are there, and returns that directory. Two writers at
// once are fine: the directory appears complete or not at all. Directories are made as needed, mode 0755.
func WriteKeeper(root string) (string, error) {
	target := filepath.Join(root, "keeper-"+KeeperHash())
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("make the directory of the keeper: %w", err)
	}
	scratch, err := os.MkdirTemp(root, ".keeper-")
	if err != nil {
		return "", fmt.Errorf("make a directory for the keeper: %w", err)
	}
	defer os.RemoveAll(scratch)
	for path, content := range KeeperFiles() {
		file := filepath.Join(scratch, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return "", fmt.Errorf("write the keeper: %w", err)
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return "", fmt.Errorf("write the keeper: %w", err)
		}
	}
	if err := os.Chmod(scratch, 0o755); err != nil {
		return "", fmt.Errorf("write the keeper: %w", err)
	}
	if err := os.Rename(scratch, target); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, there := os.Stat(target); there != nil {
			return "", fmt.Errorf("write the keeper: %w", err)
		}
	}
	return target, nil
}
