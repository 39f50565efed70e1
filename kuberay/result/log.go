package result

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher"
)

// Log is the driver's log in the log of the record's pod, one attempt's after the other's: as it is, or packed where the kubelet
// would have dropped its beginning. The kubelet adds a newline to a last line without one.
type Log struct {
	c       *api.Client
	pod     string  // "": nothing is left
	parts   []int64 // bytes of each attempt's
	packed  bool
	missing int64 // bytes at the beginning that are gone
}

// FindLog finds the driver's log and how much of it was saved.
func FindLog(ctx context.Context, c *api.Client, o *observe.Snapshot, st *State) (*Log, launcher.LogInfo, error) {
	if st == nil || st.Log == nil {
		return &Log{c: c}, launcher.LogInfo{}, nil
	}
	s, err := findLog(ctx, c, o, st)
	if err != nil {
		return nil, launcher.LogInfo{}, err
	}
	info := launcher.LogInfo{Bytes: st.Log.Bytes, Missing: st.Log.Missing}
	if from, _ := s.part(0); s.missing > from {
		info.Missing = append([][2]int64{{0, s.missing - from}}, info.Missing...)
	}
	return s, info, nil
}

func findLog(ctx context.Context, c *api.Client, o *observe.Snapshot, st *State) (*Log, error) {
	s := &Log{c: c, parts: append(st.Earlier[:len(st.Earlier):len(st.Earlier)], st.Log.Bytes), packed: st.Packed}
	p := recordPod(o)
	if p == nil {
		_, s.missing = s.part(0)
		return s, nil
	}
	s.pod = p.Name
	if !s.packed {
		return s, nil
	}
	r, err := s.stream(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	u := newUnpacker(r)
	if err := u.next(); err != nil && !errors.Is(err, io.EOF) {
		return nil, api.Explain(err, "get", "pods/log", c)
	}
	s.missing = u.at
	return s, nil
}

// part is where an attempt's log begins and ends; 0 is the last attempt.
func (s *Log) part(attempt int) (from, to int64) {
	if attempt < 1 || attempt > len(s.parts) {
		attempt = len(s.parts)
	}
	for i, n := range s.parts {
		from, to = to, to+n
		if i+1 == attempt {
			break
		}
	}
	return from, to
}

func (s *Log) stream(ctx context.Context) (io.ReadCloser, error) { return streamOf(ctx, s.c, s.pod) }

// streamOf reads all that the record's pod has printed.
func streamOf(ctx context.Context, c *api.Client, pod string) (io.ReadCloser, error) {
	r, err := c.Core.CoreV1().Pods(c.Namespace).GetLogs(pod, &corev1.PodLogOptions{Container: objects.RecordContainer}).Stream(ctx)
	return r, api.Explain(err, "get", "pods/log", c)
}

// Open reads an attempt's log from a byte as Ray wrote it; 0 is the last attempt.
func (s *Log) Open(ctx context.Context, attempt int, offset int64) (io.ReadCloser, error) {
	from, to := s.part(attempt)
	from = max(from+offset, s.missing)
	if s.pod == "" || from >= to {
		return io.NopCloser(strings.NewReader("")), nil
	}
	r, err := s.stream(ctx)
	if err != nil {
		return nil, err
	}
	var content io.Reader = r
	if s.packed {
		content = newUnpacker(r)
	}
	if _, err := io.CopyN(io.Discard, content, from-s.missing); err != nil && !errors.Is(err, io.EOF) {
		r.Close()
		return nil, fmt.Errorf("read the driver's log from byte %d: %w", offset, err)
	}
	return limited{io.LimitReader(content, to-from), r}, nil
}

type limited struct {
	io.Reader
	io.Closer
}

// unpacker reads the lines "OFFSET BASE64" of kubernetes/record.py. A first line that was cut is passed over.
type unpacker struct {
	lines *bufio.Reader
	piece []byte
	at    int64 // of the first piece that could be read
	begun bool
}

func newUnpacker(r io.Reader) *unpacker { return &unpacker{lines: bufio.NewReaderSize(r, 64<<10)} }

func (u *unpacker) Read(p []byte) (int, error) {
	for len(u.piece) == 0 {
		if err := u.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, u.piece)
	u.piece = u.piece[n:]
	return n, nil
}

// next reads one more piece; io.EOF after the last.
func (u *unpacker) next() error {
	for {
		line, err := u.lines.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			return err
		}
		at, piece, bad := unpack(line)
		if bad != nil && !u.begun {
			continue
		}
		if bad != nil {
			return fmt.Errorf("the saved log is damaged: %w", bad)
		}
		if !u.begun {
			u.at, u.begun = at, true
		}
		u.piece = piece
		return nil
	}
}

func unpack(line []byte) (at int64, piece []byte, err error) {
	offset, text, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
	if at, err = strconv.ParseInt(string(offset), 10, 64); err != nil {
		return 0, nil, err
	}
	r, err := zlib.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(text)))
	if err != nil {
		return 0, nil, err
	}
	piece, err = io.ReadAll(r)
	return at, piece, err
}
