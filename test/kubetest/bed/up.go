package bed

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// bringUp starts the missing parts and stops the superfluous ones, in parallel as far as their dependencies allow.
func (b *Bed) bringUp(ctx context.Context, fresh bool) error {
	began := time.Now()
	all, ctx := errgroup.WithContext(ctx)
	images := make(chan struct{})
	all.Go(func() error { return b.startRuntime(ctx, fresh, images) })
	all.Go(func() error {
		if err := b.startAPIServer(ctx); err != nil {
			return err
		}
		for _, step := range []func(context.Context) error{b.startNode(images), b.startControllers, b.startScheduler, b.startKubeRay, b.startVolcano} {
			all.Go(func() error { return step(ctx) })
		}
		return nil
	})
	if err := all.Wait(); err != nil {
		return err
	}
	if err := b.syncSimulated(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	b.log("Kubernetes works after %.1f s (%s)", time.Since(began).Seconds(), b.Dir)
	return nil
}

// startRuntime starts containerd and gives it the images.
func (b *Bed) startRuntime(ctx context.Context, fresh bool, images chan<- struct{}) error {
	if err := b.start(ctx, containerd, b.containerdCommand()); err != nil {
		return err
	}
	if fresh {
		if err := b.removeContainers(ctx); err != nil {
			return err
		}
	}
	if err := b.loadImages(ctx); err != nil {
		return err
	}
	close(images)
	return nil
}

func (b *Bed) startAPIServer(ctx context.Context) error {
	if err := b.start(ctx, etcd, b.etcdCommand()); err != nil {
		return err
	}
	if err := b.start(ctx, APIServer, b.apiServerCommand()); err != nil {
		return err
	}
	return b.writeKubeconfig()
}

func (b *Bed) startControllers(ctx context.Context) error {
	return b.start(ctx, Controllers, b.controllersCommand())
}

func (b *Bed) startScheduler(ctx context.Context) error {
	return b.start(ctx, Scheduler, b.schedulerCommand())
}

// startNode starts kubelet and the cluster's DNS, once the images are loaded.
func (b *Bed) startNode(images <-chan struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-images:
		}
		if err := b.start(ctx, Kubelet, b.kubeletCommand()); err != nil {
			return err
		}
		if err := b.advertiseGPUs(ctx); err != nil {
			return err
		}
		return b.start(ctx, DNS, b.dnsCommand())
	}
}

func (b *Bed) startKubeRay(ctx context.Context) error {
	if err := b.installKubeRay(ctx); err != nil {
		return err
	}
	return b.startOperator(ctx)
}

func (b *Bed) installKubeRay(ctx context.Context) error {
	if err := b.applyCRDs(ctx, b.programs.OperatorCRDs); err != nil {
		return err
	}
	return b.createNamespace(ctx, OperatorNamespace)
}

func (b *Bed) installVolcano(ctx context.Context) error {
	// Without the job flow CRDs its controllers never sync, and no queue ever opens.
	if err := b.applyCRDs(ctx, b.programs.VolcanoCRDs, b.programs.VolcanoJobCRDs); err != nil {
		return err
	}
	return b.createNamespace(ctx, "volcano-system")
}

func (b *Bed) startVolcano(ctx context.Context) error {
	if !b.config.Volcano {
		return b.removeVolcano(ctx)
	}
	if err := b.installVolcano(ctx); err != nil {
		return err
	}
	if err := b.start(ctx, VolcanoScheduler, b.volcanoSchedulerCommand()); err != nil {
		return err
	}
	return b.start(ctx, VolcanoControllers, b.volcanoControllersCommand())
}

func (b *Bed) removeVolcano(ctx context.Context) error {
	for _, part := range []Part{VolcanoScheduler, VolcanoControllers} {
		if err := b.stop(ctx, part); err != nil {
			return err
		}
	}
	return b.removeCRDs(ctx, b.programs.VolcanoCRDs, b.programs.VolcanoJobCRDs)
}

func (b *Bed) createNamespace(ctx context.Context, name string) error {
	client, err := b.client()
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	return nil
}

// RESTConfig is the administrator's client configuration, without client-side throttling.
func (b *Bed) RESTConfig() (*rest.Config, error) {
	if _, err := os.Stat(b.Kubeconfig()); err != nil {
		return nil, fmt.Errorf("the testbed has no kubeconfig yet: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", b.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

func (b *Bed) client() (*kubernetes.Clientset, error) {
	config, err := b.RESTConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

func (b *Bed) dynamicClient() (*dynamic.DynamicClient, error) {
	config, err := b.RESTConfig()
	if err != nil {
		return nil, err
	}
	return dynamic.NewForConfig(config)
}

// Start starts one part like the last Up, and returns when it works.
func (b *Bed) Start(ctx context.Context, part Part) error {
	switch part {
	case APIServer:
		return b.startAPIServer(ctx)
	case Controllers:
		return b.startControllers(ctx)
	case Scheduler:
		return b.startScheduler(ctx)
	case Kubelet:
		return b.start(ctx, Kubelet, b.kubeletCommand())
	case DNS:
		return b.start(ctx, DNS, b.dnsCommand())
	case Operator:
		return b.startOperator(ctx)
	case VolcanoScheduler:
		return b.start(ctx, part, b.volcanoSchedulerCommand())
	case VolcanoControllers:
		return b.start(ctx, part, b.volcanoControllersCommand())
	case KWOK:
		return b.start(ctx, KWOK, b.kwokCommand())
	}
	return fmt.Errorf("the testbed has no part %s to start", part)
}

// Stop kills one part, like a crash, and returns when it has ended.
func (b *Bed) Stop(ctx context.Context, part Part) error { return b.stop(ctx, part) }

// Hang stops a part with SIGSTOP, as one that hangs on a disk, until the function that it returns is called.
func (b *Bed) Hang(part Part) (func() error, error) {
	p := b.find(part)
	if p == nil {
		return nil, fmt.Errorf("%s does not run", part)
	}
	return func() error { return syscall.Kill(p.pid, syscall.SIGCONT) }, syscall.Kill(p.pid, syscall.SIGSTOP)
}
