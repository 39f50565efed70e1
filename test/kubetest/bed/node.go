package bed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/test/kubetest/build"
)

// NodeName is the node that runs real pods.
const NodeName = "node1"

func (b *Bed) socket() string { return b.path("c", "c.sock") }

// imageStore is containerd's root. It is in the cache so that images need not be imported each time.
func (b *Bed) imageStore() string { return filepath.Join(b.cache, "containerd-"+b.name()) }

func (b *Bed) containerdCommand() command {
	return command{
		argv: []string{filepath.Join(b.programs.Runtime.Bin, "containerd"), "--config", b.path("containerd.toml")},
		ready: func(ctx context.Context) error {
			_, err := b.ctr(ctx, nil, "version")
			return err
		},
	}
}

// containerdConfig: the machine may lack CAP_SYS_RESOURCE (hence restrict_oom_score_adj), and paths must stay
// short (hence network namespaces under the state directory).
func (b *Bed) containerdConfig() string {
	return fmt.Sprintf(`version = 2
root = %q
state = %q
oom_score = 0
disabled_plugins = [
  "io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = %q
        SystemdCgroup = false
`, b.imageStore(), b.path("c", "s"), b.socket(), build.PauseRef, b.programs.Runtime.CNI, b.path("cni"), b.programs.Runtime.Runc)
}

func (b *Bed) cniConfig() string {
	return fmt.Sprintf(`{"cniVersion": "0.4.0", "name": %q, "plugins": [{
  "type": "bridge", "bridge": %q, "isGateway": false, "ipMasq": false, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": %q, "routes": [{"dst": "0.0.0.0/0"}],
    "ranges": [[{"subnet": %q, "rangeStart": %q, "gateway": %q}]]}
}]}
`, b.name(), b.name(), b.path("ipam"), b.podSubnet(), fmt.Sprintf("10.201.%d.10", b.subnet), b.nodeIP())
}

func (b *Bed) kubeletCommand() command {
	return command{
		argv: []string{
			b.programs.Kubelet, "--config=" + b.path("kubelet.yaml"), "--kubeconfig=" + b.Kubeconfig(),
			"--node-ip=" + b.nodeIP(), "--hostname-override=" + NodeName, "--root-dir=" + b.path("k", "r"), "--cert-dir=" + b.path("pki", "kubelet"),
		},
		env:   []string{fmt.Sprintf("TESTBED_CPUS=%d", b.config.CPUs)},
		ready: b.nodeReady,
	}
}

// kubeletConfig: image collection and eviction are off, because the disk is shared with the whole machine, and a collected
// image could not be pulled again.
func (b *Bed) kubeletConfig() string {
	return fmt.Sprintf(`kind: KubeletConfiguration
apiVersion: kubelet.config.k8s.io/v1beta1
address: %[1]s
healthzBindAddress: %[1]s
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://%[2]s
cgroupDriver: cgroupfs
cgroupRoot: /%[3]s
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
clusterDNS: [%[1]s]
clusterDomain: cluster.local
resolvConf: %[4]s
podLogsDir: %[5]s
volumePluginDir: %[6]s
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 100Mi, nodefs.available: 0%%, nodefs.inodesFree: 0%%, imagefs.available: 0%%, imagefs.inodesFree: 0%%}
nodeStatusUpdateFrequency: 4s
nodeLeaseDurationSeconds: 16
`, b.nodeIP(), b.socket(), b.name(), b.path("resolv.conf"), b.path("k", "logs"), b.path("k", "plugins"))
}

func (b *Bed) nodeReady(ctx context.Context) error {
	client, err := b.client()
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return fmt.Errorf("the node is not ready: %s", c.Message)
		}
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
			return errors.New("the node is still marked as lost")
		}
	}
	return nil
}

func (b *Bed) dnsCommand() command {
	return command{
		argv: []string{b.programs.CoreDNS, "-conf", b.path("Corefile")},
		ready: func(ctx context.Context) error {
			resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "udp", net.JoinHostPort(b.nodeIP(), "53"))
			}}
			_, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
			return err
		},
	}
}

// corefile: names outside the cluster do not exist, because nothing outside is reachable.
func (b *Bed) corefile() string {
	return fmt.Sprintf(`cluster.local in-addr.arpa {
  bind %[1]s
  errors
  kubernetes cluster.local in-addr.arpa {
    kubeconfig %[2]s
    pods insecure
    ttl 1
  }
}
. {
  bind %[1]s
  template ANY ANY {
    rcode NXDOMAIN
  }
}
`, b.nodeIP(), b.Kubeconfig())
}
