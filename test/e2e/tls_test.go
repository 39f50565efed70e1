package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"regexp"
	"testing"
	"time"

	"github.com/rayctl/rayctl/test/pace"
)

// encryptedDriver reaches both nodes with an object that does not fit into a call, and connects to the GCS as a program with and one without a certificate does.
const encryptedDriver = `import os, socket, ssl
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
ray.init(log_to_driver=False)
@ray.remote(num_cpus=1)
def size(data):
    return ray.get_runtime_context().get_node_id(), len(data)
data = ray.put(b"x" * 3_000_000)
nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
sizes = ray.get([size.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(data) for node in nodes])
print("nodes:", len(dict(sizes)), "sizes:", {n for _, n in sizes})
host, port = ray.get_runtime_context().gcs_address.rsplit(":", 1)
def first(tls):
    try:
        with socket.create_connection((host, int(port))) as plain, tls.wrap_socket(plain, server_hostname=host) as connection:
            return connection.version(), len(connection.recv(1))
    except OSError as error:
        return "refused", 0
tls = ssl.create_default_context(cafile=os.environ["RAY_TLS_CA_CERT"])
tls.set_alpn_protocols(["h2"])
print("without:", *first(tls))
tls.load_cert_chain(os.environ["RAY_TLS_SERVER_CERT"], os.environ["RAY_TLS_SERVER_KEY"])
print("with:", *first(tls))
`

// TestTLS: two nodes that encrypt what they send, as the table "Options of Ray without a key" of docs/cluster-file.md describes it. The dashboard is not part of it.
func TestTLS(t *testing.T) {
	pace.Parallel(t)
	u := newUser(t)
	ca, caKey := certificate(t, nil, nil)
	node, key := certificate(t, ca, caKey)
	u.write("main.py", encryptedDriver)
	u.write("rayctl.yaml", "name: tls\nenv:\n  RAY_USE_TLS: '1'\n  RAY_TLS_CA_CERT: "+u.write("ca.crt", pemOf("CERTIFICATE", ca.Raw))+
		"\n  RAY_TLS_SERVER_CERT: "+u.write("node.crt", pemOf("CERTIFICATE", node.Raw))+"\n  RAY_TLS_SERVER_KEY: "+u.write("node.key", keyText(t, key))+
		"\nworkers: [{name: worker, replicas: 2, cpus: 1}]\nlifetime: {start: 3m}\njob: {entrypoint: python main.py}\n")
	out := u.want(0, "run", "-q").out
	contains(t, "the driver's output", out, "nodes: 2 sizes: {3000000}\n")
	if !regexp.MustCompile(`(?m)^without: (refused|TLSv1\.3) 0$`).MatchString(out) || !regexp.MustCompile(`(?m)^with: TLSv1\.[23] 1$`).MatchString(out) {
		t.Errorf("connections to the GCS: %s", out)
	}
}

// certificate makes one of this machine's addresses, signed by an authority, or an authority.
func certificate(t *testing.T, authority *x509.Certificate, authorityKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "node"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		BasicConstraintsValid: true, IsCA: authority == nil, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses { // Ray takes the machine's own address where it is given 127.0.0.1
		if n, ok := a.(*net.IPNet); ok && authority != nil {
			c.IPAddresses = append(c.IPAddresses, n.IP)
		}
	}
	if authority == nil { // of another name: what is signed by its own name is taken for an authority
		c.Subject.CommonName, c.KeyUsage, c.ExtKeyUsage = "authority", x509.KeyUsageCertSign, nil
		authority, authorityKey = c, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, authority, &key.PublicKey, authorityKey)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}

func pemOf(kind string, raw []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}))
}

func keyText(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("PRIVATE KEY", raw)
}
