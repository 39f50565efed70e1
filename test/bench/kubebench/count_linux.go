package kubebench

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rayctl/rayctl/test/bench/measure"
)

// counted is a proxy to the API server that counts requests other than watches.
type counted struct {
	server     *httptest.Server
	kubeconfig string

	mu       sync.Mutex
	requests map[string]int // by verb and resource
}

var resourceInPath = regexp.MustCompile(`^/apis?(?:/[^/]+){1,2}?/(?:namespaces/[^/]+/)?([a-z]+)(?:/[^/]+(/[a-z]+)?)?$`)

func (c *counted) add(r *http.Request) {
	if r.URL.Query().Get("watch") != "" {
		return
	}
	what := r.URL.Path
	if found := resourceInPath.FindStringSubmatch(what); found != nil {
		what = found[1] + found[2]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[r.Method+" "+what]++
}

func (c *counted) total() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, count := range c.requests {
		n += count
	}
	return n
}

// String lists the requests with their counts.
func (c *counted) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, what := range slices.Sorted(maps.Keys(c.requests)) {
		out = append(out, fmt.Sprintf("%d %s", c.requests[what], what))
	}
	return strings.Join(out, ", ")
}

func (k *kube) counted(b *measure.Bench) (*counted, error) {
	config := rest.CopyConfig(k.rest)
	config.NextProtos = []string{"http/1.1"} // port-forward needs an upgrade
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	c := &counted{kubeconfig: filepath.Join(b.Dir, "counted"), requests: map[string]int{}}
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.add(r)
		proxy.ServeHTTP(w, r)
	}))
	file := clientcmdapi.NewConfig()
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: c.server.URL}
	file.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", Namespace: k.namespace}
	file.CurrentContext = "c"
	return c, clientcmd.WriteToFile(*file, c.kubeconfig)
}
