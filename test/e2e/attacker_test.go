package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// The attacker's programs are this test binary, started again as the attacker with the program's name in attackVariable. Their input comes through
// stdin, so that the test itself adds nothing to /proc. It includes secrets that the attacker is only assumed to know.
const attackVariable = "RAYCTL_E2E_ATTACK"

func attack(program string) int {
	var err error
	switch program {
	case "watch":
		err = watchProc(os.Stdin, os.Stdout)
	case "probe":
		var requests []request
		if err = json.NewDecoder(os.Stdin).Decode(&requests); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(probe(requests))
		}
	case "listen":
		err = listen(os.Stdin, os.Stdout)
	default:
		err = errors.New("no such program")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, program, err)
		return 1
	}
	return 0
}

// watchProc scans repeatedly until stdin ends, and answers each line after a complete scan.
func watchProc(in io.Reader, out io.Writer) error {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			lines <- s.Text()
		}
	}()
	found := seen{map[string]int{}, map[string]int{}}
	for {
		found.look()
		select {
		case _, more := <-lines:
			found.look()
			if !more {
				return json.NewEncoder(out).Encode(found)
			}
			fmt.Fprintln(out, "looked")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// seen is what an unprivileged user found in /proc.
type seen struct {
	Texts  map[string]int // arguments and environments, with counts
	Opened map[string]int // files in /proc of the victim's processes that show or change their memory, environment, descriptors or directories
}

func (f *seen) look() {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		for _, name := range []string{"cmdline", "environ"} {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil && len(text) > 0 {
				f.Texts[string(bytes.ReplaceAll(text, []byte{0}, []byte{'\n'}))]++
			}
		}
		info, err := os.Stat(dir)
		if err != nil || info.Sys().(*syscall.Stat_t).Uid != victimID {
			continue
		}
		for _, name := range []string{"environ", "mem", "maps", "auxv", "fd", "root/", "cwd/", "task/" + filepath.Base(dir) + "/environ"} {
			file, err := os.Open(dir + "/" + name)
			if err != nil {
				continue
			}
			if n, err := file.Read(make([]byte, 1)); n > 0 || name == "mem" || errors.Is(err, syscall.EISDIR) { // maps of an ended process is empty
				f.Opened[name]++
			}
			file.Close()
		}
	}
}

// request is one request to a port of this machine: HTTP, or gRPC without encryption, which Ray's components use.
type request struct {
	Address, Path string
	Header        map[string]string
	GRPC          bool
}

// probe makes the requests, each on a connection of its own.
func probe(requests []request) []response {
	responses := make([]response, len(requests))
	var all sync.WaitGroup
	for i, r := range requests {
		all.Go(func() { responses[i] = r.do() })
	}
	all.Wait()
	return responses
}

// response is the answer to a request. Without an answer Status is 0 and Err has the reason.
type response struct {
	Request request
	Status  int
	GRPC    string // grpc-status
	Body    string
	Err     string
	Silent  bool // the connection stayed open without an answer
}

func (r request) do() (got response) {
	got.Request = r
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	method, body := http.MethodGet, []byte(nil)
	transport := &http.Transport{DisableKeepAlives: true, Protocols: &http.Protocols{}}
	transport.Protocols.SetHTTP1(!r.GRPC)
	transport.Protocols.SetUnencryptedHTTP2(r.GRPC)
	if r.GRPC {
		method, body = http.MethodPost, make([]byte, 5) // an empty message
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.Address+r.Path, bytes.NewReader(body))
	if err != nil {
		got.Err = err.Error()
		return got
	}
	if r.GRPC {
		req.Header.Set("Content-Type", "application/grpc")
		req.Header.Set("TE", "trailers")
	}
	for name, value := range r.Header {
		req.Header.Set(name, value)
	}
	if host := r.Header["Host"]; host != "" {
		req.Host = host
	}
	resp, err := transport.RoundTrip(req) // follows no redirect
	if err != nil {
		got.Err, got.Silent = err.Error(), ctx.Err() != nil
		return got
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		got.Err = err.Error()
	}
	got.Status, got.Body = resp.StatusCode, string(text)
	if got.GRPC = resp.Trailer.Get("Grpc-Status"); got.GRPC == "" {
		got.GRPC = resp.Header.Get("Grpc-Status")
	}
	return got
}

// listen serves on a loopback port and prints its address, then a line for each request.
func listen(in io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintln(out, l.Addr())
	go http.Serve(l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { fmt.Fprintf(out, "%q\n", fmt.Sprint(r.Host, r.Header)) }))
	_, err = io.Copy(io.Discard, in)
	return err
}

func (r response) String() string {
	return fmt.Sprintf("%s%s: %d %s %.300q %s", r.Request.Address, r.Request.Path, r.Status, r.GRPC, r.Body, r.Err)
}
