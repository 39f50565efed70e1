package build

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// Image is a container image of one layer.
type Image struct {
	// Refs are its full names, e.g. docker.io/rayproject/ray:2.60.0.
	Refs []string
	// RootRefs are names of the same image without a user of its own: its containers run as root.
	RootRefs []string
	// Digest of the layer: the same image has the same digest.
	Digest string
	dir    string
}

// imageConfig is the container's configuration in a Docker archive.
type imageConfig struct {
	User       string   `json:"User,omitempty"`
	Env        []string `json:"Env,omitempty"`
	WorkingDir string   `json:"WorkingDir,omitempty"`
	Entrypoint []string `json:"Entrypoint,omitempty"`
	Cmd        []string `json:"Cmd,omitempty"`
}

const (
	layerFile  = "layer.tar"
	configFile = "config.json"
	// rootConfigFile is only in archives.
	rootConfigFile = "root.json"
)

// saveImage writes an image's layer and configuration to dir.
func saveImage(dir string, config imageConfig, files *tree) error {
	f, err := os.Create(filepath.Join(dir, layerFile))
	if err != nil {
		return err
	}
	hash := sha256.New()
	if err := files.write(io.MultiWriter(f, hash)); err != nil {
		_ = f.Close()
		return fmt.Errorf("writing the image's layer: %w", err)
	}
	if err := f.Close(); err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(hash.Sum(nil))}},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, configFile), text, 0o644)
}

// loadImage reads what saveImage wrote.
func loadImage(dir string, refs ...string) (Image, error) {
	text, err := os.ReadFile(filepath.Join(dir, configFile))
	if err != nil {
		return Image{}, err
	}
	sum := sha256.Sum256(text)
	return Image{Refs: refs, Digest: hex.EncodeToString(sum[:]), dir: dir}, nil
}

// WriteArchive writes the image as a Docker archive for `ctr images import -`.
func (i Image) WriteArchive(w io.Writer) error {
	images := []map[string]any{{"Config": configFile, "RepoTags": i.Refs, "Layers": []string{layerFile}}}
	archive := tar.NewWriter(w)
	if len(i.RootRefs) > 0 {
		text, err := i.rootConfig()
		if err != nil {
			return err
		}
		if err := addText(archive, rootConfigFile, text); err != nil {
			return err
		}
		images = append(images, map[string]any{"Config": rootConfigFile, "RepoTags": i.RootRefs, "Layers": []string{layerFile}})
	}
	manifest, err := json.Marshal(images)
	if err != nil {
		return err
	}
	if err := addText(archive, "manifest.json", manifest); err != nil {
		return err
	}
	for _, name := range []string{configFile, layerFile} {
		if err := addFile(archive, &tar.Header{Name: name, Mode: 0o644}, filepath.Join(i.dir, name)); err != nil {
			return err
		}
	}
	return archive.Close()
}

// rootConfig is the image's configuration without a user.
func (i Image) rootConfig() ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(i.dir, configFile))
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	if config, ok := all["config"].(map[string]any); ok {
		delete(config, "User")
	}
	return json.Marshal(all)
}

func addText(archive *tar.Writer, name string, text []byte) error {
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
		return err
	}
	_, err := archive.Write(text)
	return err
}

// addFile adds a regular file; the header gets its size.
func addFile(archive *tar.Writer, header *tar.Header, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	header.Typeflag, header.Size = tar.TypeReg, info.Size()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, f)
	return err
}

// PauseRef is the image of the sandbox containers.
const PauseRef = "rayctl.test/pause:1"

// PauseImage is an image with only the pause program.
func PauseImage(ctx context.Context) (Image, error) {
	program, err := pauseProgram(ctx)
	if err != nil {
		return Image{}, err
	}
	dir, err := Once(ctx, "image-pause-1", func(_ context.Context, tmp string) error {
		files := newTree()
		files.file("/pause", program, 0o755)
		return saveImage(tmp, imageConfig{Entrypoint: []string{"/pause"}, User: "65535:65535"}, files)
	})
	if err != nil {
		return Image{}, err
	}
	return loadImage(dir, PauseRef)
}

func pauseProgram(ctx context.Context) (string, error) {
	dir, err := Once(ctx, "pause-1", func(ctx context.Context, tmp string) error {
		_, self, _, _ := runtime.Caller(0)
		cmd := goCommand(ctx, filepath.Join(filepath.Dir(self), "..", "pause"), "build", "-ldflags", "-s -w", "-o", filepath.Join(tmp, "pause"), ".")
		cmd.Env = append(cmd.Env, "GOFLAGS=")
		return run(cmd)
	})
	return filepath.Join(dir, "pause"), err
}
