package dashboardclient

import (
	"io"
	"strings"
	"testing"
)

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

// piecewise returns one piece for each Read, as a connection does.
type piecewise struct{ pieces []string }

func readAll(r io.Reader) (string, error) {
	got, err := io.ReadAll(r)
	return string(got), err
}

func (closer) Close() error { return nil }

func (p *piecewise) Read(b []byte) (int, error) {
	if len(p.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.pieces[0])
	p.pieces = p.pieces[1:]
	return n, nil
}
