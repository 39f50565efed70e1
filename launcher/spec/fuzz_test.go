package spec_test

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/spec"
)

// FuzzDecode checks that no file makes the decoder panic and that every error names the file. An accepted file must survive defaults,
// validation, hashing, and being written and read back.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		design, "", "name: a", "name: \"$(touch /tmp/x)`id`'\\n\"", "workers: [{name: é, replicas: -3}]", "a: &a [*a]", "? {a: b}\n: c", "env: {? : x}",
		"kuberay: {patch: {a: 0x1F, b: 1e400, c: !!int x}}", "lifetime: {max: 9999999-23:59:59}", "{\"name\": \"a\", \"env\": {\"\\u0000\": \"\\ud800\"}}",
		"mounts: [{mountPath: /, source: {kuberay: {hostPath: ~}}}]", "secrets: [[x]]", "- -\n -", "\t", "%YAML 9.9\n---\n", "slurm: {exclusive: ~}",
		"kuberay: {tolerations: [{tolerationSeconds: x}]}", "workers: [{name: a, memory: 1e99999}]", "gpuTypes: {\"\": }", "job: {restarts: {driver: 99999999999}}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := spec.Decode(strings.NewReader(string(data)), "f.yaml")
		if err != nil {
			if len(spec.AsErrors(err)) == 0 || !strings.HasPrefix(err.Error(), "f.yaml") {
				t.Fatalf("error without its file: %v", err)
			}
			return
		}
		for _, launcher := range spec.Launchers() {
			c := spec.Copy(s)
			c.Launcher = launcher
			spec.Default(c)
			_ = spec.Validate(c)
			again := spec.Copy(c)
			if spec.Hash(c) != spec.Hash(again) || len(spec.Diff(c, again)) != 0 {
				t.Fatalf("a copy differs: %v", spec.Diff(c, again))
			}
		}
	})
}
