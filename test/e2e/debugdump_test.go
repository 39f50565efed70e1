package e2e

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/leak"
)

// TestDebugDump collects from the shared cluster, to which a job was submitted that prints the cluster's token in several ways: no file has it. The job's output is
// there only if it is wanted.
func TestDebugDump(t *testing.T) {
	u := sharedCluster(t)
	file := decode[map[string]string](t, u.want(0, "env", "shared", "-o", "json").out)["RAY_AUTH_TOKEN_PATH"]
	token, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	u.want(0, "submit", "shared", "-q", "--submission-id", "prints-token", "--", "sh", "-c", "echo printed; cat "+file+"; echo; base64 "+file+"; echo Authorization: Bearer $(cat "+file+")")
	r := u.want(0, "debug-dump", "shared", "-o", "dump.tar.gz")
	contains(t, "the answer", r.out, "dump.tar.gz")
	contains(t, "what it holds", r.err, "the archive holds ", "run/ (", "ray/ (", "look at the archive before you send it")
	contains(t, "again", u.want(runstate.CodeUsage, "debug-dump", "shared", "-o", "dump.tar.gz").err, "already exists")
	texts := u.unpacked("dump.tar.gz")
	contains(t, "the keeper's log", texts["run/keeper.log"], "Ready")
	contains(t, "the cluster file", texts["cluster-file.yaml"], "name: shared")
	contains(t, "a node's log", texts["ray/nodes/worker-1/raylet.out"], "(raylet)")
	contains(t, "Ray's nodes", texts["ray/nodes.json"], "worker-1")
	u.want(0, "debug-dump", "shared", "-o", "whole.tar.gz", "--driver-log")
	whole := u.unpacked("whole.tar.gz")
	contains(t, "the job's output", whole["ray/drivers/prints-token.log"], "printed\n[secret removed]\nAuthorization: [secret removed]\n")
	for name, text := range texts {
		if strings.Contains(text, "\nprinted\n") || strings.HasPrefix(path.Base(name), "job-driver-") || strings.HasPrefix(path.Base(name), "worker-") {
			t.Errorf("the user's output is in %s", name)
		}
		whole["without the output: "+name] = text
	}
	for name, text := range whole {
		if how := leak.Find([]byte(text), strings.TrimSpace(string(token))); how != "" {
			t.Errorf("the token is in %s, %s", name, how)
		}
	}
}

// unpacked are the texts of an archive of debug-dump.
func (u *user) unpacked(file string) map[string]string {
	u.t.Helper()
	packed, err := os.Open(filepath.Join(u.dir, file))
	if err != nil {
		u.t.Fatal(err)
	}
	defer packed.Close()
	plain, err := gzip.NewReader(packed)
	if err != nil {
		u.t.Fatal(err)
	}
	texts, files := map[string]string{}, tar.NewReader(plain)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			u.t.Fatal(err)
		}
		text, err := io.ReadAll(files)
		if err != nil {
			u.t.Fatal(err)
		}
		_, name, _ := strings.Cut(header.Name, "/")
		texts[name] = string(text)
	}
}
