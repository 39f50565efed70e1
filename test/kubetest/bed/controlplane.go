package bed

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// With the defaults the tests of lost nodes would wait for minutes; the behaviour is the same.
const (
	nodeMonitorGrace = "16s"
	lostNodeSeconds  = "10"
)

func (b *Bed) etcdCommand() command {
	client := "http://" + net.JoinHostPort(b.loopback(), "2379")
	peer := "http://" + net.JoinHostPort(b.loopback(), "2380")
	return command{
		argv: []string{
			b.programs.Etcd, "--data-dir=" + b.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		},
		ready: answers(client + "/health"),
	}
}

func (b *Bed) apiServerCommand() command {
	return command{
		argv: []string{
			b.programs.APIServer,
			"--etcd-servers=http://" + net.JoinHostPort(b.loopback(), "2379"),
			"--bind-address=" + b.nodeIP(), "--advertise-address=" + b.nodeIP(), "--secure-port=6443",
			"--cert-dir=" + b.path("pki"),
			"--token-auth-file=" + b.path("pki", "tokens.csv"), "--authorization-mode=RBAC", "--anonymous-auth=true",
			"--service-cluster-ip-range=" + b.serviceSubnet(),
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + b.path("pki", "sa.key"), "--service-account-signing-key-file=" + b.path("pki", "sa.key"),
			"--endpoint-reconciler-type=none", "--kubelet-preferred-address-types=InternalIP", "--allow-privileged=true",
			"--default-not-ready-toleration-seconds=" + lostNodeSeconds, "--default-unreachable-toleration-seconds=" + lostNodeSeconds,
			"--audit-policy-file=" + b.path(auditPolicyFile), "--audit-log-path=" + b.AuditLog(),
		},
		ready: answers(b.server() + "/readyz"),
	}
}

func (b *Bed) controllersCommand() command {
	return command{
		argv: []string{
			b.programs.ControllerManager, "--kubeconfig=" + b.Kubeconfig(),
			"--authentication-kubeconfig=" + b.Kubeconfig(), "--authorization-kubeconfig=" + b.Kubeconfig(),
			"--bind-address=" + b.loopback(), "--cert-dir=" + b.path("pki", "controllers"), "--leader-elect=false",
			"--service-account-private-key-file=" + b.path("pki", "sa.key"), "--root-ca-file=" + b.path("pki", "apiserver.crt"),
			"--node-monitor-grace-period=" + nodeMonitorGrace, "--node-monitor-period=2s",
			"--flex-volume-plugin-dir=" + b.path("k", "plugins"),
		},
		ready: func(ctx context.Context) error {
			client, err := b.client()
			if err != nil {
				return err
			}
			_, err = client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
			return err
		},
	}
}

func (b *Bed) schedulerCommand() command {
	return command{
		argv: []string{
			b.programs.Scheduler, "--kubeconfig=" + b.Kubeconfig(),
			"--authentication-kubeconfig=" + b.Kubeconfig(), "--authorization-kubeconfig=" + b.Kubeconfig(),
			"--bind-address=" + b.loopback(), "--cert-dir=" + b.path("pki", "scheduler"), "--leader-elect=false",
		},
		ready: answers("https://" + net.JoinHostPort(b.loopback(), "10259") + "/readyz"),
	}
}

// answers succeeds once an HTTP address answers 200.
func answers(url string) func(context.Context) error {
	client := &http.Client{
		Timeout: 5 * time.Second,
		// This only checks whether the part works, at addresses of our own.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return permanent{err}
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(io.LimitReader(resp.Body, 2000))
			return fmt.Errorf("%s answers %s: %s", url, resp.Status, text)
		}
		return nil
	}
}

const auditPolicyFile = "audit.yaml"

// auditPolicy logs requests of service accounts, which include the users of tests, but not the testbed's own parts.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
`

// AuditLog is the API server's audit log, one event of audit.k8s.io/v1 to a line.
func (b *Bed) AuditLog() string { return b.path("audit.log") }
