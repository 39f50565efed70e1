package pack

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
)

// corpus is 10,000 files with 50 MB of text that resembles source code.
func corpus(b *testing.B) string {
	words := strings.Fields("import ray def return self for in range if else not None True False model reward policy actor learner rollout " +
		"config batch step loss value args kwargs class async await with open print")
	random := rand.New(rand.NewPCG(1, 2))
	root := b.TempDir()
	for i := range 10000 {
		var text strings.Builder
		for text.Len() < 5000 {
			fmt.Fprintf(&text, "%s_%d ", words[random.IntN(len(words))], random.IntN(1000))
		}
		put(b, filepath.Join(root, fmt.Sprintf("d%02d", i%100), fmt.Sprintf("f%d.py", i)), text.String(), false)
	}
	age(b, root)
	return root
}

// places are where the corpus lies: for git to list it, and for our own matcher.
func places(b *testing.B, run func(b *testing.B, root string)) {
	root := corpus(b)
	b.Run("directory", func(b *testing.B) { run(b, root) })
	git(b, root, "init", "-q")
	git(b, root, "add", ".")
	b.Run("repository", func(b *testing.B) { run(b, root) })
}

func BenchmarkPack(b *testing.B) {
	places(b, func(b *testing.B, root string) {
		var size int64
		for b.Loop() {
			size = packed(b, root, Options{}).Size
		}
		b.ReportMetric(float64(size)/1e6, "MB")
	})
}

func BenchmarkUnchanged(b *testing.B) {
	places(b, func(b *testing.B, root string) {
		opts := Options{CacheDir: b.TempDir()}
		packed(b, root, opts)
		for b.Loop() {
			if !packed(b, root, opts).Reused {
				b.Fatal("not reused")
			}
		}
	})
}
