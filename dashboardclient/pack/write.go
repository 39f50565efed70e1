package pack

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// writer writes one zip from the workers' results, in the order of the files.
type writer struct {
	opts     Options
	files    []file
	zip      *zip.Writer
	size     *countingWriter
	tree     hash.Hash // of names, modes and contents
	progress Progress
	reported time.Time
	stable   bool // no file changed since the walk
}

// write packs the files into dir. stable is false if a file changed meanwhile: the package is good, but must not be remembered.
func write(ctx context.Context, files []file, dir string, opts Options) (pkg *Package, stable bool, err error) {
	temporary, err := os.CreateTemp(dir, "package")
	if err != nil {
		return nil, false, err
	}
	defer os.Remove(temporary.Name()) // already renamed after success
	defer temporary.Close()
	w := newWriter(temporary, files, opts)
	if err := w.all(ctx); err != nil {
		return nil, false, err
	}
	if err := w.zip.Close(); err != nil {
		return nil, false, err
	}
	if w.size.n > opts.MaxSize { // including the zip's directory at its end
		return nil, false, tooLarge(files, opts.MaxSize)
	}
	if err := temporary.Sync(); err != nil { // otherwise a crash of the machine may leave a file of this name and size without its content
		return nil, false, err
	}
	if err := temporary.Close(); err != nil {
		return nil, false, err
	}
	name := "_ray_pkg_" + hex.EncodeToString(w.tree.Sum(nil)[:16]) + ".zip"
	path := filepath.Join(dir, name)
	if err := os.Rename(temporary.Name(), path); err != nil {
		return nil, false, err
	}
	return &Package{URI: "gcs://" + name, Path: path, Size: w.size.n, Files: w.progress.Files, Bytes: w.progress.Bytes,
		sum: hex.EncodeToString(w.size.sum.Sum(nil))}, w.stable, nil
}

func newWriter(out io.Writer, files []file, opts Options) *writer {
	size := &countingWriter{w: out, sum: sha256.New()}
	w := &writer{opts: opts, files: files, size: size, zip: zip.NewWriter(size), tree: sha256.New(), stable: true}
	w.zip.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return newDeflater(out) })
	for _, f := range files {
		if !f.dir {
			w.progress.TotalFiles++
		}
		w.progress.TotalBytes += f.state.size
	}
	return w
}

// all writes every file as soon as the workers have read it.
func (w *writer) all(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	results := read(ctx, w.files)
	for i, f := range w.files {
		var result contents
		select {
		case result = <-results[i]:
		case <-ctx.Done():
			return ctx.Err()
		}
		err := w.one(f, result)
		result.release()
		if err != nil {
			return err
		}
		if w.size.n > w.opts.MaxSize {
			return tooLarge(w.files, w.opts.MaxSize)
		}
		w.report()
	}
	return nil
}

func (w *writer) one(f file, c contents) error {
	switch {
	case c.vanished:
		w.vanished(f)
		return nil
	case c.err != nil:
		return readable(c.err)
	case f.dir:
		w.note(f, sha256.Sum256(nil))
		_, err := w.zip.CreateHeader(header(f))
		return err
	case c.large:
		return w.stream(f)
	}
	w.stable = w.stable && c.stable
	w.note(f, c.sum)
	w.progress.Files++
	w.progress.Bytes += c.size
	h := header(f)
	h.CRC32, h.UncompressedSize64, h.CompressedSize64 = c.crc, uint64(c.size), uint64(len(c.data))
	h.Method, h.Flags, h.ReaderVersion = c.method, utf8Flag, 20
	out, err := w.zip.CreateRaw(h)
	if err != nil {
		return err
	}
	_, err = out.Write(c.data)
	return err
}

// stream packs a file that is too large for memory.
func (w *writer) stream(f file) error {
	in, err := os.Open(f.path)
	if os.IsNotExist(err) {
		w.vanished(f)
		return nil
	}
	if err != nil {
		return readable(err)
	}
	defer in.Close()
	h := header(f)
	h.Method = zip.Deflate
	out, err := w.zip.CreateHeader(h)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum, writerFunc(w.advance)), in)
	if err != nil {
		return err
	}
	w.stable = w.stable && unchanged(in, f.state) && n == f.state.size
	w.note(f, [sha256.Size]byte(sum.Sum(nil)))
	w.progress.Files++
	return nil
}

func (w *writer) vanished(f file) {
	w.stable = false
	w.opts.Logger.Warn("left out: it was deleted meanwhile", "path", f.path)
}

// advance counts the bytes of a large file, and fails at the limit.
func (w *writer) advance(p []byte) (int, error) {
	w.progress.Bytes += int64(len(p))
	w.report()
	if w.size.n > w.opts.MaxSize {
		return 0, tooLarge(w.files, w.opts.MaxSize)
	}
	return len(p), nil
}

// note adds a file to the tree's digest.
func (w *writer) note(f file, sum [sha256.Size]byte) {
	fmt.Fprintf(w.tree, "%o %d %s ", f.mode, len(f.name), f.name)
	w.tree.Write(sum[:])
}

func (w *writer) report() {
	done := w.progress.Files == w.progress.TotalFiles
	if w.opts.Progress == nil || !done && time.Since(w.reported) < 50*time.Millisecond {
		return
	}
	w.reported = time.Now()
	w.opts.Progress(w.progress)
}

// utf8Flag marks the name as UTF-8. CreateHeader sets it itself.
const utf8Flag = 0x800

// header is the zip header of a file. Times are left out: they are not content, and Ray does not restore them.
func header(f file) *zip.FileHeader {
	h := &zip.FileHeader{Name: f.name, ModifiedDate: 1<<5 | 1} //nolint:staticcheck // 1 January 1980; Modified would add an extra field to each file
	mode := f.mode
	if f.dir {
		mode |= fs.ModeDir
	}
	h.SetMode(mode)
	return h
}

// countingWriter counts the written bytes and adds them to sum.
type countingWriter struct {
	w   io.Writer
	n   int64
	sum hash.Hash
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.sum.Write(p[:n])
	return n, err
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
