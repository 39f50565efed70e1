package kuberay_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rayctl/rayctl/kuberay"
)

// gate stands before the real API server and can answer in its place: what cannot be provoked on the real one.
type gate struct {
	kubeconfig string
	server     *httptest.Server

	mu   sync.Mutex
	rule rule
}

// rule answers a request, or passes it on.
type rule func(w http.ResponseWriter, r *http.Request, pass http.Handler)

// newGate lets everything through at first.
func (b bed) newGate(t *testing.T) *gate {
	t.Helper()
	tls, err := rest.TLSConfigFor(b.REST)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(b.REST.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{TLSClientConfig: tls}, // HTTP/1.1: it must carry upgrades
	}
	g := &gate{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), rule: open}
	g.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		rule := g.rule
		g.mu.Unlock()
		if r.Header.Get("Upgrade") == "" { // a body that is still being read when the answer is there makes ReverseProxy cut the answer: golang/go#40747
			body, err := io.ReadAll(r.Body)
			if err != nil {
				cut(w)
				return
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		rule(w, r, proxy)
	}))
	t.Cleanup(func() {
		g.server.CloseClientConnections()
		g.server.Close()
	})
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.server.Certificate().Raw})
	config, err := clientcmd.LoadFromFile(b.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range config.Clusters {
		c.Server, c.CertificateAuthorityData = g.server.URL, certificate
	}
	if err := clientcmd.WriteToFile(*config, g.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return g
}

// launcher is a client behind the gate.
func (g *gate) launcher() *kuberay.Launcher {
	return kuberay.New(kuberay.Config{Kubeconfig: g.kubeconfig})
}

// set changes what is done with requests from now on, and cuts the connections that are open, port-forwards aside.
func (g *gate) set(r rule) {
	g.mu.Lock()
	g.rule = r
	g.mu.Unlock()
	g.server.CloseClientConnections()
}

// open passes everything on.
func open(w http.ResponseWriter, r *http.Request, pass http.Handler) { pass.ServeHTTP(w, r) }

// refuse answers as the API server does.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

// cut ends the connection without an answer.
func cut(w http.ResponseWriter) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		conn.Close()
	}
}

// cutAnswer passes a request on and ends the connection within its answer.
func cutAnswer(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	answer := httptest.NewRecorder()
	pass.ServeHTTP(answer, r)
	maps.Copy(w.Header(), answer.Header())
	w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
	w.(http.Flusher).Flush() // the beginning is on its way
	panic(http.ErrAbortHandler)
}

// writes reports whether a request changes something in the cluster.
func writes(r *http.Request) bool {
	if r.URL.Query().Get("dryRun") != "" {
		return false
	}
	return r.Method == http.MethodPost && r.Header.Get("Upgrade") == "" || r.Method == http.MethodPatch || r.Method == http.MethodDelete
}
