package kubetest

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// Request is a request in the API server's audit log (Kubernetes' documentation, "Auditing").
type Request struct {
	Verb      string `json:"verb"`
	URI       string `json:"requestURI"`
	UserAgent string `json:"userAgent"`
	User      struct {
		Name string `json:"username"`
	} `json:"user"`
	Object *struct {
		Resource    string `json:"resource"`
		Name        string `json:"name"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
}

// Requests returns the requests of a namespace's service accounts, in order; see LimitedKubeconfig.
func (c *Cluster) Requests(t testing.TB, namespace string) (out []Request) {
	t.Helper()
	file, err := os.Open(c.bed.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r Request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("a line of the audit log: %v", err)
		}
		if strings.HasPrefix(r.User.Name, "system:serviceaccount:"+namespace+":") {
			out = append(out, r)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
