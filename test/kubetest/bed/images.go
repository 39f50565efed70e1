package bed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rayctl/rayctl/test/kubetest/build"
)

// samplesRay are Ray's versions in the sample manifests of KubeRay 1.4, 1.5 and 1.6: the one Ray image also has
// those names, so that the samples run unchanged.
var samplesRay = []string{"2.46.0", "2.52.0"}

// UnnamedRay is a name of the Ray image that does not show Ray's version.
const UnnamedRay = "rayctl.test/train:v5"

// ctr runs containerd's client in kubelet's namespace.
func (b *Bed) ctr(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	program := filepath.Join(b.programs.Runtime.Bin, "ctr")
	cmd := exec.CommandContext(ctx, program, append([]string{"--address", b.socket(), "--namespace", "k8s.io"}, args...)...)
	var out, failed bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &failed
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(failed.Bytes()))
	}
	return out.String(), nil
}

// loadImages imports the images that the store lacks, or has with other content.
func (b *Bed) loadImages(ctx context.Context) error {
	images := make([]build.Image, 0, 2)
	pause, err := build.PauseImage(ctx)
	if err != nil {
		return err
	}
	images = append(images, pause)
	if b.config.Python != "" {
		ray, err := build.RayImage(ctx, b.config.Python)
		if err != nil {
			return err
		}
		for _, version := range samplesRay {
			ray.Refs = append(ray.Refs, "docker.io/rayproject/ray:"+version)
		}
		ray.Refs = append(ray.Refs, UnnamedRay)
		images = append(images, ray)
	}
	loaded := b.loadedImages()
	there, err := b.ctr(ctx, nil, "images", "ls", "-q")
	if err != nil {
		return err
	}
	for _, image := range images {
		if loaded[image.Refs[0]] == image.Digest && hasAll(there, slices.Concat(image.Refs, image.RootRefs)) {
			continue
		}
		if err := b.importImage(ctx, image); err != nil {
			return fmt.Errorf("importing %s: %w", image.Refs[0], err)
		}
		if old := loaded[image.Refs[0]]; old != "" && old != image.Digest {
			// The name has a new content, but kubelet's name for the old one would keep that.
			_, _ = b.ctr(ctx, nil, "images", "rm", "sha256:"+old)
		}
		loaded[image.Refs[0]] = image.Digest
	}
	return b.saveLoadedImages(loaded)
}

func hasAll(list string, refs []string) bool {
	there := strings.Fields(list)
	return !slices.ContainsFunc(refs, func(ref string) bool { return !slices.Contains(there, ref) })
}

func (b *Bed) importImage(ctx context.Context, image build.Image) error {
	began := time.Now()
	r, w := io.Pipe()
	go func() { w.CloseWithError(image.WriteArchive(w)) }()
	_, err := b.ctr(ctx, r, "images", "import", "-")
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	b.log("image %s imported in %.1f s", image.Refs[0], time.Since(began).Seconds())
	return nil
}

func (b *Bed) loadedFile() string { return filepath.Join(b.imageStore(), "rayctl-loaded.json") }

// loadedImages are the digests of the imported images, by name.
func (b *Bed) loadedImages() map[string]string {
	loaded := map[string]string{}
	text, err := os.ReadFile(b.loadedFile())
	if err != nil || json.Unmarshal(text, &loaded) != nil {
		return map[string]string{}
	}
	return loaded
}

func (b *Bed) saveLoadedImages(loaded map[string]string) error {
	text, err := json.Marshal(loaded)
	if err != nil {
		return err
	}
	return os.WriteFile(b.loadedFile(), text, 0o644)
}

// removeContainers removes all containers, their processes and their writable layers.
func (b *Bed) removeContainers(ctx context.Context) error {
	tasks, err := b.ctr(ctx, nil, "tasks", "ls", "-q")
	if err != nil {
		return err
	}
	for _, id := range strings.Fields(tasks) {
		// A task may end by itself meanwhile; only its container must be removable.
		_, _ = b.ctr(ctx, nil, "tasks", "rm", "--force", id)
	}
	out, err := b.ctr(ctx, nil, "containers", "ls", "-q")
	if err != nil {
		return err
	}
	if ids := strings.Fields(out); len(ids) > 0 {
		if _, err := b.ctr(ctx, nil, append([]string{"containers", "rm"}, ids...)...); err != nil {
			return err
		}
	}
	return nil
}
