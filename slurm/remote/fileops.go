package remote

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
)

// writeChunk is the size of one piece of a file on its way.
const writeChunk = 1 << 20

// Write makes a file appear whole or not at all. exclusive: fs.ErrExist if there is one.
func (f *Files) Write(ctx context.Context, path string, content io.Reader, exclusive bool) error {
	buffer, tag, first := make([]byte, writeChunk), "-"+keeper.NewToken()[:8], true
	for last := false; !last; first = false {
		n, err := io.ReadFull(content, buffer)
		if last = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); err != nil && !last {
			return err
		}
		// A piece is not sent again after a cut: it might be there already.
		err = f.callOnce(ctx, "write", map[string]any{
			"path": path, "tag": tag, "data": base64.StdEncoding.EncodeToString(buffer[:n]), "first": first, "last": last, "exclusive": exclusive,
		}, nil)
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

// WriteBytes is Write for what is in memory; what is there is replaced.
func (f *Files) WriteBytes(ctx context.Context, path string, content []byte) error {
	err := f.Write(ctx, path, bytes.NewReader(content), false)
	if errors.Is(err, ErrCut) && ctx.Err() == nil { // once more, whole
		err = f.Write(ctx, path, bytes.NewReader(content), false)
	}
	return err
}

// WriteJSON writes a document; exclusive: fs.ErrExist where there is a file.
func (f *Files) WriteJSON(ctx context.Context, path string, document any, exclusive bool) error {
	text, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	if exclusive { // never twice: it may be there already
		return f.Write(ctx, path, bytes.NewReader(text), true)
	}
	return f.WriteBytes(ctx, path, text)
}

// Upload copies a file of this machine.
func (f *Files) Upload(ctx context.Context, from, to string, sent *launcher.Meter) error {
	file, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("open the package: %w", err)
	}
	defer file.Close()
	return f.Write(ctx, to, sent.Reader(file), false)
}

// Found is one small file.
type Found struct {
	Data []byte
	Age  time.Duration // since it was changed
}

// Read reads small files in one go; those that are not there are left out.
func (f *Files) Read(ctx context.Context, paths ...string) (map[string]Found, error) {
	var reply struct {
		Files map[string]struct {
			Data []byte  `json:"data"`
			Age  float64 `json:"age"`
		} `json:"files"`
	}
	if err := f.Call(ctx, "several", map[string]any{"paths": paths}, &reply); err != nil {
		return nil, err
	}
	out := map[string]Found{}
	for path, file := range reply.Files {
		out[path] = Found{Data: file.Data, Age: time.Duration(file.Age * float64(time.Second))}
	}
	return out, nil
}

// Reader reads a file from a byte on; one that is not there is empty.
func (f *Files) Reader(ctx context.Context, path string, offset int64) io.Reader {
	return &reader{ctx: ctx, files: f, path: path, offset: offset}
}

// reader reads a file from an offset on, in pieces. A file that is not there is empty.
type reader struct {
	ctx    context.Context
	files  *Files
	path   string
	offset int64
	rest   []byte
}

func (r *reader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		var reply struct {
			Data []byte `json:"data"`
		}
		err := r.files.Call(r.ctx, "read", map[string]any{"path": r.path, "offset": r.offset}, &reply)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", r.path, err)
		}
		if r.rest = reply.Data; len(r.rest) == 0 {
			return 0, io.EOF
		}
		r.offset += int64(len(r.rest))
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// End reads the last bytes of a regular file, at most limit, and returns its size.
func (f *Files) End(ctx context.Context, path string, limit int) ([]byte, int64, error) {
	var reply struct {
		Data []byte `json:"data"`
		Size int64  `json:"size"`
	}
	err := f.Call(ctx, "end", map[string]any{"path": path, "limit": limit}, &reply)
	return reply.Data, reply.Size, err
}

// Names lists a directory; none where there is no directory.
func (f *Files) Names(ctx context.Context, path string) ([]string, error) {
	var reply struct {
		Names []string `json:"names"`
	}
	err := f.Call(ctx, "names", map[string]any{"path": path}, &reply)
	return reply.Names, err
}

// Kind is "file", "directory" or "".
func (f *Files) Kind(ctx context.Context, path string) (string, error) {
	var reply struct {
		Kind string `json:"kind"`
	}
	err := f.Call(ctx, "kind", map[string]any{"path": path}, &reply)
	return reply.Kind, err
}

// Make makes a directory, and those above it.
func (f *Files) Make(ctx context.Context, path string, mode os.FileMode) error {
	return f.Call(ctx, "make", map[string]any{"path": path, "mode": int(mode)}, nil)
}

// Remove removes files and whole directories; what is not there is fine.
func (f *Files) Remove(ctx context.Context, paths ...string) error {
	return f.Call(ctx, "remove", map[string]any{"paths": paths}, nil)
}

// RemoveEmpty removes a directory if nothing is in it.
func (f *Files) RemoveEmpty(ctx context.Context, path string) error {
	return f.Call(ctx, "remove", map[string]any{"paths": []string{path}, "empty": true}, nil)
}
