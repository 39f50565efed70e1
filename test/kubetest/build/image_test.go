package build

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestImageIsADockerArchiveWithAMergedUsr(t *testing.T) {
	dir := t.TempDir()
	files := newTree()
	files.text("/bin/hello", "#!/bin/sh\n", 0o755)
	files.text("/home/ray/file", "x", 0o600)
	files.own("/home/ray", 1000, 100)
	if err := saveImage(dir, imageConfig{User: "1000:100"}, files); err != nil {
		t.Fatal(err)
	}
	image, err := loadImage(dir, "docker.io/x/y:1")
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := image.WriteArchive(&archive); err != nil {
		t.Fatal(err)
	}
	outer := headers(t, &archive)
	if len(outer) != 3 || outer["manifest.json"] == nil || outer["config.json"] == nil || outer["layer.tar"] == nil {
		t.Errorf("the archive has %v", outer)
	}
	f, err := os.Open(filepath.Join(dir, layerFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	layer := headers(t, f)
	if h := layer["usr/bin/hello"]; h == nil || h.Mode != 0o755 || h.Uid != 0 {
		t.Errorf("/bin/hello is %+v", h)
	}
	if h := layer["bin"]; h == nil || h.Linkname != "usr/bin" {
		t.Errorf("/bin is %+v", h)
	}
	if h := layer["home/ray/file"]; h == nil || h.Uid != 1000 || h.Gid != 100 || h.Mode != 0o600 {
		t.Errorf("/home/ray/file is %+v", h)
	}
	if h := layer["home/"]; h == nil || h.Typeflag != tar.TypeDir {
		t.Errorf("/home is %+v", h)
	}
}

func headers(t *testing.T, r io.Reader) map[string]*tar.Header {
	t.Helper()
	all := map[string]*tar.Header{}
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = h
	}
}
