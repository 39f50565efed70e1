package bed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// OperatorNamespace has the operator's lease, which shows inside the cluster that the operator is alive.
const OperatorNamespace = "ray-system"

const operatorLease = "ray-operator-leader"

func (b *Bed) operatorCommand() command {
	argv := []string{
		b.programs.Operator, "-use-kubernetes-proxy", "-leader-election-namespace=" + OperatorNamespace,
		"-metrics-addr=" + net.JoinHostPort(b.loopback(), "8080"), "-health-probe-bind-address=" + net.JoinHostPort(b.loopback(), "8082"),
	}
	healthy := answers("http://" + net.JoinHostPort(b.loopback(), "8082") + "/readyz")
	return command{
		argv: append(argv, b.config.OperatorFlags...),
		env:  []string{"KUBECONFIG=" + b.Kubeconfig()},
		ready: func(ctx context.Context) error {
			if err := healthy(ctx); err != nil {
				return err
			}
			client, err := b.client()
			if err != nil {
				return err
			}
			lease, err := client.CoordinationV1().Leases(OperatorNamespace).Get(ctx, operatorLease, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
				return errors.New("nobody holds the operator's lease")
			}
			return nil
		},
	}
}

// startOperator starts the operator. The lease of a killed one would block it for 15 s, like another machine's.
func (b *Bed) startOperator(ctx context.Context) error {
	c := b.operatorCommand()
	if p := b.find(Operator); p == nil || !slices.Equal(p.argv, c.argv) {
		if err := b.stop(ctx, Operator); err != nil {
			return err
		}
		client, err := b.client()
		if err != nil {
			return err
		}
		err = client.CoordinationV1().Leases(OperatorNamespace).Delete(ctx, operatorLease, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing the lease of an earlier operator: %w", err)
		}
	}
	return b.start(ctx, Operator, c)
}

func (b *Bed) volcanoSchedulerCommand() command {
	healthz := net.JoinHostPort(b.loopback(), "11251")
	return command{
		argv: []string{
			b.programs.VolcanoScheduler, "--kubeconfig=" + b.Kubeconfig(), "--scheduler-conf=" + b.programs.VolcanoConfig,
			"--leader-elect=false", "--listen-address=" + net.JoinHostPort(b.loopback(), "8180"), "--enable-healthz", "--healthz-address=" + healthz,
			"--cache-dump-dir=" + b.path("tmp"),
		},
		ready: answers("http://" + healthz + "/healthz"),
	}
}

var queues = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "queues"}

func (b *Bed) volcanoControllersCommand() command {
	healthz := net.JoinHostPort(b.loopback(), "11252")
	healthy := answers("http://" + healthz + "/healthz")
	return command{
		argv: []string{
			b.programs.VolcanoControllers, "--kubeconfig=" + b.Kubeconfig(), "--leader-elect=false",
			"--listen-address=" + net.JoinHostPort(b.loopback(), "8181"), "--enable-healthz", "--healthz-address=" + healthz,
		},
		ready: func(ctx context.Context) error {
			if err := healthy(ctx); err != nil {
				return err
			}
			client, err := b.dynamicClient()
			if err != nil {
				return err
			}
			queue, err := client.Resource(queues).Get(ctx, "default", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if is, _, _ := unstructured.NestedString(queue.Object, "status", "state"); is != "Open" {
				return fmt.Errorf("the queue default is %q, not Open", is)
			}
			return nil
		},
	}
}

func (b *Bed) kwokCommand() command {
	address := net.JoinHostPort(b.loopback(), "10247")
	return command{
		argv: []string{
			b.programs.KWOK, "--kubeconfig=" + b.Kubeconfig(), "--manage-nodes-with-label-selector=type=kwok",
			"--node-lease-duration-seconds=40", "--node-ip=" + b.loopback(), "--server-address=" + address,
		},
		ready: answers("http://" + address + "/healthz"),
	}
}

// writeConfigs writes the parts' configuration files.
func (b *Bed) writeConfigs() error {
	for name, text := range map[string]string{
		"containerd.toml": b.containerdConfig(), "cni/10-" + b.name() + ".conflist": b.cniConfig(), "kubelet.yaml": b.kubeletConfig(),
		"Corefile": b.corefile(), auditPolicyFile: auditPolicy, "resolv.conf": "nameserver " + b.nodeIP() + "\n",
	} {
		if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("writing the testbed's configuration: %w", err)
		}
	}
	return nil
}
