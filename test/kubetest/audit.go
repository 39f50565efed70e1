package kubetest

import (
	"bufio"
	"encoding/json"
	"io"
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
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF { // behind the last line end stands what is just being written
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		var r Request
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("a line of the audit log: %v", err)
		}
		if strings.HasPrefix(r.User.Name, "system:serviceaccount:"+namespace+":") {
			out = append(out, r)
		}
	}
}
