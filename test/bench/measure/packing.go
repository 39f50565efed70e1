package measure

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/dashboardclient/pack"
)

//go:embed packing.py
var packingOfRay string

// packing has one side's results: the first time, and again when the cluster has the package.
type packing struct{ pack, again, size []float64 }

// measurePack packs a working directory of 10,000 files with Ray's functions, without the start of Python, and with rayctl's.
func measurePack(ctx context.Context, b *Bench) ([]Row, error) {
	client, err := b.cluster(ctx)
	if err != nil {
		return nil, err
	}
	root := filepath.Join(b.Dir, "corpus")
	if err := writeCorpus(root); err != nil {
		return nil, err
	}
	var today, ours packing
	err = b.Repeat(ctx, "pack", func(ctx context.Context) error {
		return today.ofRay(ctx, b, root)
	}, func(ctx context.Context) error {
		return ours.ofRayctl(ctx, b, root, client)
	})
	if err != nil {
		return nil, err
	}
	return []Row{
		Compare("working directory of 10,000 files, 50 MB: hash and pack", Seconds, today.pack, ours.pack, 0.6, ""),
		Compare("its package to upload", Megabytes, today.size, ours.size, 30e6, ""),
		Compare("unchanged and resubmitted", Seconds, today.again, ours.again, 0.1, ""),
	}, nil
}

func (p *packing) ofRay(ctx context.Context, b *Bench, root string) error {
	d, err := b.Command(ctx, b.Head.Env, b.Python, "-c", packingOfRay, root, b.Head.URL)
	if err != nil {
		return err
	}
	var took struct{ Pack, Again, Size float64 }
	if err := json.Unmarshal(d.Output.Data, &took); err != nil {
		return fmt.Errorf("%w in %q", err, d.Output.Data)
	}
	p.pack, p.again, p.size = append(p.pack, took.Pack), append(p.again, took.Again), append(p.size, took.Size)
	return nil
}

func (p *packing) ofRayctl(ctx context.Context, b *Bench, root string, client *dashboardclient.Client) error {
	cache, err := os.MkdirTemp(b.Dir, "packages-") // empty
	if err != nil {
		return err
	}
	submit := func() (*pack.Package, float64, error) {
		start := time.Now()
		made, err := pack.WorkingDir(ctx, root, pack.Options{CacheDir: cache})
		return made, time.Since(start).Seconds(), err
	}
	made, took, err := submit()
	if err != nil {
		return err
	}
	if _, err := client.UploadPackage(ctx, made.URI, made.Path, nil); err != nil {
		return err
	}
	start := time.Now()
	if made, _, err = submit(); err != nil {
		return err
	}
	if uploaded, err := client.UploadPackage(ctx, made.URI, made.Path, nil); err != nil || uploaded {
		return fmt.Errorf("the cluster should have had the package: %w", err)
	}
	p.pack, p.again, p.size = append(p.pack, took), append(p.again, time.Since(start).Seconds()), append(p.size, float64(made.Size))
	return nil
}

// writeCorpus makes 10,000 files of 5 kB, a fifth of them incompressible, the others with words of source code.
func writeCorpus(root string) error {
	words := strings.Fields("import ray def return self for in range if else not None True False model reward policy actor learner rollout " +
		"config batch step loss value args kwargs class async await with open print")
	random := rand.New(rand.NewPCG(1, 2)) // the same files each time
	old := time.Now().Add(-time.Hour)     // new files never count as unchanged
	for i := range 10_000 {
		var content []byte
		for len(content) < 5000 {
			if i%5 == 0 {
				content = append(content, byte(random.Uint32()))
			} else {
				content = fmt.Appendf(content, "%s_%d ", words[random.IntN(len(words))], random.IntN(1000))
			}
		}
		path := filepath.Join(root, fmt.Sprintf("d%02d", i%100), fmt.Sprintf("f%d.py", i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
		if err := os.Chtimes(path, old, old); err != nil {
			return err
		}
	}
	return nil
}
