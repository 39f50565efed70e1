package bed

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rayctl/rayctl/test/kubetest/build"
)

// prepare makes what the parts need on the machine: directories, keys, the bridge, the cgroup, and their configuration files.
func (b *Bed) prepare(ctx context.Context) error {
	for _, dir := range []string{"logs", "tmp", "etcd", "pki", "cni", "k/plugins", "k/logs", "c"} {
		if err := os.MkdirAll(b.path(dir), 0o755); err != nil {
			return fmt.Errorf("making the testbed's directories: %w", err)
		}
	}
	for _, step := range []func() error{b.writeKeys, b.writeCgroup, b.writeConfigs} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := b.writeBridge(ctx); err != nil {
		return err
	}
	if err := b.writeService(ctx); err != nil {
		return err
	}
	return b.save(b.Kept())
}

// writeKeys makes the administrator's token and the signing key of service account tokens, once in a testbed's life.
func (b *Bed) writeKeys() error {
	if _, err := os.Stat(b.path("pki", "sa.key")); err == nil {
		return nil
	}
	line := fmt.Sprintf("%s,admin,admin,system:masters\n", rand.Text())
	if err := os.WriteFile(b.path("pki", "tokens.csv"), []byte(line), 0o600); err != nil {
		return fmt.Errorf("writing the administrator's token: %w", err)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return os.WriteFile(b.path("pki", "sa.key"), text, 0o600)
}

// writeBridge makes the pods' bridge. Nothing is forwarded or masqueraded: pods reach each other and the node.
func (b *Bed) writeBridge(ctx context.Context) error {
	if _, err := net.InterfaceByName(b.name()); err == nil {
		return nil
	}
	for _, args := range [][]string{
		{"link", "add", b.name(), "type", "bridge"},
		{"addr", "add", b.nodeIP() + "/24", "dev", b.name()},
		{"link", "set", b.name(), "up"},
	} {
		if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("making the bridge: ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// writeService makes the one Service with an address of its own that pods use, `kubernetes`: what they send there reaches the API server, as kube-proxy would
// have it. The API server's certificate has that address, the first one of its range. The rule is there as long as the bridge is.
func (b *Bed) writeService(ctx context.Context) error {
	return b.nft(ctx, fmt.Sprintf("chain pods { type nat hook prerouting priority dstnat; iifname %q ip daddr 10.202.%d.1 tcp dport 443 dnat to %s:6443; }",
		b.name(), b.subnet, b.nodeIP()))
}

// nft replaces the testbed's table of rules in the machine's own network; without rules it removes the table.
func (b *Bed) nft(ctx context.Context, rules string) error {
	argv, err := build.NFT(ctx)
	if err != nil {
		return err
	}
	table := fmt.Sprintf("table ip rayctl_%x", b.name()) // names of tables may have fewer characters than those of bridges
	text := table + "\ndelete " + table + "\n"
	if rules != "" {
		text += table + " {\n" + rules + "\n}\n"
	}
	cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], "-f", "-")...)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the testbed's network rules: %w: %s\n%s", err, out, text)
	}
	return nil
}

// writeKubeconfig writes the administrator's kubeconfig, once the API server has made its certificate.
func (b *Bed) writeKubeconfig() error {
	line, err := os.ReadFile(b.path("pki", "tokens.csv"))
	if err != nil {
		return err
	}
	token, _, _ := strings.Cut(string(line), ",")
	return b.WriteKubeconfig(b.Kubeconfig(), "default", token)
}

// WriteKubeconfig writes a kubeconfig for the owner of a token.
func (b *Bed) WriteKubeconfig(path, namespace, token string) error {
	ca, err := os.ReadFile(b.path("pki", "apiserver.crt"))
	if err != nil {
		return fmt.Errorf("reading the API server's certificate: %w", err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[b.name()] = &clientcmdapi.Cluster{Server: b.server(), CertificateAuthorityData: ca}
	config.AuthInfos["user"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[b.name()] = &clientcmdapi.Context{Cluster: b.name(), AuthInfo: "user", Namespace: namespace}
	config.CurrentContext = b.name()
	return clientcmd.WriteToFile(*config, path)
}

// unmountBelow unmounts everything mounted in dir, the deepest first.
func unmountBelow(dir string) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var points []string
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			points = append(points, f[4])
		}
	}
	var errs []error
	for i := len(points) - 1; i >= 0; i-- {
		errs = append(errs, unmount(points[i]))
	}
	return errors.Join(errs...)
}
