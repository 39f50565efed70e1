package dashboardclient

import (
	"io"
	"strings"
	"testing"
)

// TestStripper pushes each log whole, and byte by byte.
func TestStripper(t *testing.T) {
	const header = "2026-11-21 12:21:04,591\tINFO job_manager.py:581 -- Runtime env is setting up.\n"
	const line = "Running entrypoint for job j1: echo \"a\nb\"\n"
	for name, test := range map[string]struct {
		raw, want string
		offset    int64
	}{
		"both":                 {header + line + "out\n", "out\n", 0},
		"header only":          {header + "out", "out", 0},
		"nothing else":         {header + line, "", 0},
		"none":                 {"out\n", "out\n", 0},
		"empty":                {"", "", 0},
		"output first":         {header + "out\n" + line + "more\n", "out\nmore\n", 0},
		"inside a line":        {header + "ou" + line + "t\n", "out\n", 0},
		"only once":            {header + line + line, line, 0},
		"another job's":        {header + "Running entrypoint for job j2: x\n", "Running entrypoint for job j2: x\n", 0},
		"begins like it":       {header + "Running entry", "Running entry", 0},
		"header not the first": {"out\n" + header, "out\n" + header, 0},
		"begins like a header": {"2026-11-21 12", "2026-11-21 12", 0},
		"a driver's own":       {"2026-11-21 12:21:04,591\tINFO train.py:1 -- hi\n", "2026-11-21 12:21:04,591\tINFO train.py:1 -- hi\n", 0},
		"from an offset":       {header + line + "x", header + "x", 7},
		"far from the start":   {header + strings.Repeat("x", 2<<20) + line + "y", strings.Repeat("x", 2<<20) + "y", 0},
		"from far off":         {line + "y", "y", 2 << 20},
	} {
		for _, size := range []int{1, 3, len(test.raw) + 1} {
			s := newStripper("j1", "echo \"a\nb\"", test.offset)
			var got strings.Builder
			for rest := test.raw; rest != ""; {
				n := min(size, len(rest))
				got.Write(s.push([]byte(rest[:n])))
				rest = rest[n:]
			}
			got.Write(s.flush())
			if got.String() != test.want {
				t.Errorf("%s, in pieces of %d: %.200q, not %.200q", name, size, got.String(), test.want)
			}
		}
	}
}

func TestLineStarts(t *testing.T) {
	for _, test := range []struct {
		text string
		keep int
		want int64
	}{{"", 3, 0}, {"a\n", 3, 0}, {"a\nb\nc", 3, 0}, {"a\nb\nc\n", 2, 2}, {"a\nb\nc\nd", 2, 4}, {"a\nb\nc\nd\ne\n", 3, 4}, {"\n\n\n", 1, 2}} {
		for _, size := range []int{1, 100} {
			s := &lineStarts{keep: test.keep}
			for rest := test.text; rest != ""; {
				n := min(size, len(rest))
				_, _ = s.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			if s.first() != test.want {
				t.Errorf("the last %d lines of %q begin at %d, not %d", test.keep, test.text, s.first(), test.want)
			}
		}
	}
}

// TestTailOfDriver: a late line of Ray's, at the end or inside of a line, does not count as one of the driver's last lines.
func TestTailOfDriver(t *testing.T) {
	const header = "2026-11-21 12:21:04,591\tINFO job_manager.py:581 -- Runtime env is setting up.\n"
	const line = "Running entrypoint for job j1: echo \"a\nb\"\n"
	for raw, want := range map[string]string{
		header + "1\n2\n3\n" + line:         "2\n3\n",
		header + "1\n2\n" + line + "3\n":    "2\n3\n",
		header + line + "1\n2\n3\n":         "2\n3\n",
		header + "1\n22" + line + "22\n3\n": "2222\n3\n",
		header + "1\n2" + line + "\n3\n4":   "3\n4",
		header + line + "1\n":               "1\n",
		line:                                "",
		"1\n2\n3\n":                         "2\n3\n",
	} {
		for _, size := range []int{1, 5, 1000} {
			s := &lineStarts{keep: 2, strip: newStripper("j1", "echo \"a\nb\"", 0)}
			for rest := raw; rest != ""; {
				n := min(size, len(rest))
				_, _ = s.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			from := s.first()
			after := newStripper("j1", "echo \"a\nb\"", from)
			got := string(after.push([]byte(raw[from:]))) + string(after.flush())
			if got != want {
				t.Errorf("the last 2 lines of %q: %q, not %q", raw, got, want)
			}
		}
	}
}

// TestTelling has answers of real dashboards.
func TestTelling(t *testing.T) {
	for text, want := range map[string]string{
		"Traceback (most recent call last):\n  File \"x\", line 1, in f\n    raise RuntimeError(f\"...\")\nRuntimeError: Request failed with status code 400: Traceback (most recent call last):\n" +
			"  File \"y\", line 504, in submit_job\n    raise ValueError(\nValueError: Job with submission_id j1 already exists. Please use a different submission_id.\n.\n": "Job with submission_id j1 already exists. Please use a different submission_id.",
		"aiohttp.web_exceptions.HTTPRequestEntityTooLarge: Request Entity Too Large":                                                                            "aiohttp.web_exceptions.HTTPRequestEntityTooLarge: Request Entity Too Large",
		`{"result": false, "msg": "Given node id zzz is not available.", "data": {"result": null}}`:                                                             "Given node id zzz is not available.",
		"x\npydantic.v1.error_wrappers.ValidationError: 1 validation error for ServeInstanceDetails\nproxy_location\n  value is not a valid enumeration member": "1 validation error for ServeInstanceDetails: proxy_location: value is not a valid enumeration member",
		"Job j9 does not exist": "Job j9 does not exist",
		"<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head>": "502 Bad Gateway",
		"": "",
	} {
		if _, got := telling(text); got != want {
			t.Errorf("%.60q gives %q, not %q", text, got, want)
		}
	}
}

func TestCamelCase(t *testing.T) {
	for name, want := range map[string]string{ // from a real dashboard of 2.60.0
		"object_store_memory": "objectStoreMemory", "node:__internal_head__": "node:InternalHead", "CPU": "CPU",
		"node_d3dabda3d37e7bb9": "nodeD3Dabda3D37E7Bb9", "memory": "memory",
	} {
		if got := camelCase(name); got != want {
			t.Errorf("%s becomes %s, not %s", name, got, want)
		}
	}
}

// TestOldFraming reads blocks as 2.9.3 sends them.
func TestOldFraming(t *testing.T) {
	full := strings.Repeat("x", blockSize)
	for raw, want := range map[string]string{
		"1hi":                    "hi",
		"1" + full + "1hi\n1234": full + "hi\n1234",
		"":                       "",
	} {
		got, err := readAll(&blockReader{ReadCloser: closer{strings.NewReader(raw)}})
		if err != nil || got != want {
			t.Errorf("%.20q gives %.20q, %v", raw, got, err)
		}
	}
	for _, raw := range []string{"0Closing HTTP stream due to internal server error.\nA file is not found at: /x", "1" + full + "0gone"} {
		if _, err := readAll(&blockReader{ReadCloser: closer{strings.NewReader(raw)}}); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.20q gives %v", raw, err)
		}
	}
}

// TestInbandFailure reads a failed stream as 2.40 sends it, and a driver's similar output.
func TestInbandFailure(t *testing.T) {
	if got, err := readAll(&inbandReader{ReadCloser: closer{strings.NewReader("out\n[get_logs] Fetch log error: gone")}}); err == nil || got != "out\n" {
		t.Errorf("%q, %v", got, err)
	}
	own := "[get_logs] Fetch log error: mine\n" + strings.Repeat("x", 4096)
	pieces := closer{&piecewise{[]string{own[:10], own[10:33], own[33:]}}}
	if got, err := readAll(&inbandReader{ReadCloser: pieces}); err != nil || got != own {
		t.Errorf("%.40q, %v", got, err)
	}
}

type closer struct{ io.Reader }

func (closer) Close() error { return nil }

// piecewise returns one piece for each Read, as a connection does.
type piecewise struct{ pieces []string }

func (p *piecewise) Read(b []byte) (int, error) {
	if len(p.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.pieces[0])
	p.pieces = p.pieces[1:]
	return n, nil
}

func readAll(r io.Reader) (string, error) {
	got, err := io.ReadAll(r)
	return string(got), err
}
