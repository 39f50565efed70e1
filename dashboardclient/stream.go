package dashboardclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// logFile is a log file of one node. It is a logstream.Source.
type logFile struct {
	client     *Client
	node, name string
}

func (c *Client) driverLog(node, id string) logFile {
	return logFile{client: c, node: node, name: "job-driver-" + id + ".log"}
}

// String is the name of the file.
func (f logFile) String() string { return f.name }

// Open opens the log from its beginning.
func (f logFile) Open(ctx context.Context, follow bool) (io.ReadCloser, error) {
	return f.client.openLog(ctx, f, -1, follow)
}

// CanFollow depends on Ray's version.
func (f logFile) CanFollow(ctx context.Context) (bool, error) {
	version, err := f.client.knownVersion(ctx)
	return version.canFollow(), err
}

// Answered reports whether an error is an answer of the dashboard, and whether trying again is useless, because the dashboard refused the token.
func (f logFile) Answered(err error) (answered, final bool) {
	var answer *APIError
	return errors.As(err, &answer), errors.Is(err, ErrUnauthorized)
}

// Explain makes a sentence of an error.
func (f logFile) Explain(ctx context.Context, err error) error {
	return f.client.failure(ctx, ctx, "read log "+f.name, err)
}

// Shorter is the error for an answer that had fewer bytes than an earlier one.
func (f logFile) Shorter(bytes int64) error {
	return &APIError{Doing: "read log " + f.name, Status: http.StatusInternalServerError,
		Message: fmt.Sprintf("the cluster sent %d bytes fewer than before", bytes)}
}

// errStreamFailed is the kind of an error that a dashboard wrote into the stream instead of log bytes.
var errStreamFailed = errors.New("reading the log failed on the cluster")

// openLog opens a log file from its beginning, or its last lines if lines is positive. With follow, the reader waits for more at the
// end of the file. Three generations of the API are supported:
//
//   - from 2.46 on the bytes are unchanged, and a failure is a 500, or later a broken connection;
//   - from 2.33 on they are unchanged with format=text, but a failure is a message inside the bytes;
//   - before, each block of at most 64 KiB has a leading 1, and a failure a leading 0. Blocks of a live stream may be joined on
//     the way and then have no visible boundaries. Therefore only whole files can be read, whose blocks are all full; see CanFollow.
func (c *Client) openLog(ctx context.Context, file logFile, lines int, follow bool) (io.ReadCloser, error) {
	version, err := c.knownVersion(ctx)
	if err != nil {
		return nil, err
	}
	if lines <= 0 {
		lines = -1
	}
	media, query := "file", url.Values{
		"node_id": {file.node}, "filename": {file.name}, "lines": {strconv.Itoa(lines)}, "format": {"text"},
	}
	if follow {
		media = "stream"
		query.Set("interval", "0.05") // seconds between checks for new bytes
	}
	response, err := c.open(ctx, request{doing: "read log " + file.name, path: []string{"api", "v0", "logs", media}, query: query, once: true, stream: true})
	if err != nil {
		return nil, err
	}
	switch {
	case !version.AtLeast(2, 33):
		return &blockReader{ReadCloser: response.Body}, nil
	case !version.AtLeast(2, 46):
		return &inbandReader{ReadCloser: response.Body}, nil
	}
	return response.Body, nil
}

// CanFollow reports whether this version's live streams can be read.
func (v VersionInfo) canFollow() bool { return v.AtLeast(2, 33) }

// blockReader removes the leading byte of each block of a whole file.
type blockReader struct {
	io.ReadCloser
	left int // bytes of the current block that were not read yet
}

const blockSize = 1 << 16

func (r *blockReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		var lead [1]byte
		if _, err := io.ReadFull(r.ReadCloser, lead[:]); err != nil {
			return 0, err
		}
		if lead[0] == '0' {
			text, _ := io.ReadAll(io.LimitReader(r.ReadCloser, 4096))
			return 0, streamFailure(bytes.TrimPrefix(text, []byte("Closing HTTP stream due to internal server error.\n")))
		}
		r.left = blockSize
	}
	n, err := r.ReadCloser.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

// inbandReader turns the message that ends a failed stream back into an error. It holds text that resembles such a message until
// further bytes prove it to be the driver's.
type inbandReader struct {
	io.ReadCloser
	held []byte // starts with the marker
	next []byte // to be returned first
}

var inbandMarker = []byte("[get_logs] Fetch log error: ")

func (r *inbandReader) Read(p []byte) (int, error) {
	for len(r.next) == 0 {
		buffer := make([]byte, 64<<10)
		n, err := r.ReadCloser.Read(buffer)
		if n == 0 && errors.Is(err, io.EOF) && len(r.held) > 0 {
			return 0, streamFailure(bytes.TrimPrefix(r.held, inbandMarker))
		}
		if n == 0 {
			return 0, err
		}
		r.next, r.held = slices.Concat(r.held, buffer[:n]), nil
		if at := bytes.LastIndex(r.next, inbandMarker); at >= 0 && len(r.next)-at < 4096 {
			r.next, r.held = r.next[:at], bytes.Clone(r.next[at:])
		}
	}
	n := copy(p, r.next)
	r.next = r.next[n:]
	return n, nil
}

func streamFailure(text []byte) error {
	_, line := summarize(string(text))
	return &APIError{Doing: "read a log", Status: 500, Message: line, kind: errStreamFailed}
}
