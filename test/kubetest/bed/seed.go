package bed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/rayctl/rayctl/test/kubetest/build"
)

// seed gives a new testbed the database of a cluster with only the CRDs of KubeRay and Volcano. Creating the CRDs
// takes the API server longer than the rest of the start, so that the database is made once and cached.
func (b *Bed) seed(ctx context.Context) error {
	v := b.config.Versions
	// The address of the service "kubernetes" is in the database, so the network is part of its name.
	name := fmt.Sprintf("database-%s-%s-%s-%s-%d", v.Etcd, v.Kubernetes, v.KubeRay, v.Volcano, b.subnet)
	dir, err := build.Once(ctx, name, b.makeDatabase)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(b.path("etcd")); err != nil {
		return err
	}
	if err := os.CopyFS(b.path("etcd"), os.DirFS(filepath.Join(dir, "etcd"))); err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	return nil
}

// makeDatabase copies etcd's files after a kill, as after a crash: etcd recovers from that.
func (b *Bed) makeDatabase(ctx context.Context, tmp string) error {
	if err := b.startAPIServer(ctx); err != nil {
		return err
	}
	all, crds := errgroup.WithContext(ctx)
	all.Go(func() error { return b.installKubeRay(crds) })
	all.Go(func() error { return b.installVolcano(crds) })
	if err := all.Wait(); err != nil {
		return err
	}
	for _, part := range []Part{APIServer, etcd} {
		if err := b.stop(ctx, part); err != nil {
			return err
		}
	}
	return os.CopyFS(filepath.Join(tmp, "etcd"), os.DirFS(b.path("etcd")))
}
