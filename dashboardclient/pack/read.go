package pack

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/klauspost/compress/flate"
)

const (
	// largeFile is the size from which a file is streamed and not held in memory.
	largeFile = 4 << 20
	// readAhead is the number of files that the workers may be ahead of the writer.
	readAhead = 64
)

// contents is a worker's result for one file.
type contents struct {
	sum      [sha256.Size]byte
	crc      uint32
	size     int64
	method   uint16
	data     []byte // compressed or raw, by method
	stable   bool   // the file is unchanged since the walk
	large    bool   // not read: to be streamed
	vanished bool
	err      error
	release  func()
}

// read reads and compresses the files on all processors. Each file's result has its own channel. Workers take the files
// in order, so that the writer waits only for the next one.
func read(ctx context.Context, files []file) []chan contents {
	results := make([]chan contents, len(files))
	for i := range results {
		results[i] = make(chan contents, 1)
	}
	ahead := make(chan struct{}, readAhead)
	next := make(chan int)
	go func() {
		defer close(next)
		for i := range files {
			select {
			case ahead <- struct{}{}:
			case <-ctx.Done():
				return
			}
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	}()
	release := func() { <-ahead }
	for range runtime.GOMAXPROCS(0) {
		go func() {
			var r reader
			for i := range next {
				result := r.read(files[i])
				result.release = release
				results[i] <- result
			}
		}()
	}
	return results
}

// reader has a worker's buffers, reused for all of its files.
type reader struct {
	raw      bytes.Buffer
	deflater *flate.Writer
}

func (r *reader) read(f file) contents {
	if f.dir {
		return contents{stable: true}
	}
	if f.state.size > largeFile {
		return contents{large: true}
	}
	in, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return contents{vanished: true}
	}
	if err != nil {
		return contents{err: err}
	}
	defer in.Close()
	r.raw.Reset()
	// A file that grows while it is read is cut at its earlier size, so that it cannot fill the memory.
	if _, err := r.raw.ReadFrom(io.LimitReader(in, f.state.size)); err != nil {
		return contents{err: fmt.Errorf("read %s: %w", f.path, err)}
	}
	raw := r.raw.Bytes()
	c := contents{sum: sha256.Sum256(raw), crc: crc32.ChecksumIEEE(raw), size: int64(len(raw))}
	c.stable = c.size == f.state.size && unchanged(in, f.state)
	c.method, c.data, c.err = r.compress(raw)
	return c
}

// compress returns the deflated bytes, or a copy of the raw ones if they are not smaller.
func (r *reader) compress(raw []byte) (uint16, []byte, error) {
	var out bytes.Buffer
	out.Grow(len(raw)/2 + 64)
	if r.deflater == nil {
		deflater, err := newDeflater(&out)
		if err != nil {
			return 0, nil, err
		}
		r.deflater = deflater
	} else {
		r.deflater.Reset(&out)
	}
	if _, err := r.deflater.Write(raw); err != nil {
		return 0, nil, err
	}
	if err := r.deflater.Close(); err != nil {
		return 0, nil, err
	}
	if out.Len() >= len(raw) {
		return zip.Store, bytes.Clone(raw), nil
	}
	return zip.Deflate, out.Bytes(), nil
}

// newDeflater makes a worker's compressor; there is no pool. BestSpeed costs a third of the default and loses a tenth.
func newDeflater(out io.Writer) (*flate.Writer, error) { return flate.NewWriter(out, flate.BestSpeed) }

// unchanged reports whether an open file still has the state from the walk.
func unchanged(in *os.File, before state) bool {
	info, err := in.Stat()
	return err == nil && stateOf(info) == before
}

// tooLarge names the files that make the package too large.
func tooLarge(files []file, limit int64) error {
	largest := slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(b.state.size, a.state.size) })
	var names []string
	for _, f := range largest[:min(5, len(largest))] {
		names = append(names, fmt.Sprintf("%s (%.1f MiB)", f.name, float64(f.state.size)/(1<<20)))
	}
	return fmt.Errorf("%w: it passes %d MiB, the most that Ray's dashboard takes; the largest files are %s: exclude them (.rayignore), or put the data where the nodes can read it",
		ErrTooLarge, (limit+1)>>20, strings.Join(names, ", "))
}
