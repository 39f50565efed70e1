package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/test/leak"
)

// onLocalCluster has a second user attack a local cluster of two nodes with a job's package: every attempt must fail. The attacker's
// Python stands for any program.
func onLocalCluster(t *testing.T, victim, attacker *secondUser) {
	program := "print('main ran', flush=True)\n"
	victim.write("work/main.py", program, 0o644)
	victim.want(0, "submit", "mine", "-q", "--working-dir", ".", "--submission-id", "first", "--", "python", "main.py")
	dirs := reportedDirs(t, filepath.Join(victim.home, ".local", "state", "rayctl", "clusters", "mine"))
	packages := find(t, dirs, "main.py")
	if len(packages) == 0 {
		t.Fatalf("no unpacked package below %v", dirs)
	}

	t.Run("packages", func(t *testing.T) {
		for _, path := range packages {
			for _, script := range []string{
				"cat '" + path + "'", "echo evil > '" + path + "'", "rm -f '" + path + "' && ! ls '" + path + "'",
				"mv '" + filepath.Dir(path) + "' '" + filepath.Dir(path) + ".old'", "ls '" + filepath.Dir(path) + "'",
			} {
				refused(t, attacker, script)
			}
		}
		for _, path := range packages {
			if text, err := os.ReadFile(path); err != nil || string(text) != program {
				t.Errorf("%s is %q now, %v", path, text, err)
			}
		}
	})

	t.Run("links in logs", func(t *testing.T) {
		prey := victim.write("prey", "mine\n", 0o600)
		for _, logs := range found(t, dirs, "logs") {
			refused(t, attacker, "ln -s '"+prey+"' '"+filepath.Join(logs, "job-driver-third.log")+"'")
			refused(t, attacker, "ls '"+logs+"'")
		}
		if text, err := os.ReadFile(prey); err != nil || string(text) != "mine\n" {
			t.Errorf("the victim's file: %q, %v", text, err)
		}
	})

	t.Run("sockets and secrets", func(t *testing.T) {
		for _, name := range []string{"plasma_store", "raylet"} {
			for _, socket := range found(t, dirs, name) {
				connects := `python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' '` + socket + `'`
				victim.must(connects) // the script works
				refused(t, attacker, connects)
			}
		}
		state := filepath.Join(victim.home, ".local", "state", "rayctl")
		var tokens []string
		for _, name := range []string{"token", "ray-token.0"} {
			path := filepath.Join(state, "clusters", "mine", name)
			token, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			tokens = append(tokens, strings.TrimSpace(string(token)))
			refused(t, attacker, "cat '"+path+"'")
		}
		seen := attacker.sh("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null; find /tmp /dev/shm -type f -readable -size -1000k -exec cat {} + 2>/dev/null").out
		if !strings.Contains(seen, "keeper.pyz") {
			t.Error("the other user saw no command line of the cluster: this test would not find the token in one")
		}
		for _, token := range tokens {
			if how := leak.Find([]byte(seen), token); how != "" {
				t.Errorf("a token is readable by another user, %s", how)
			}
		}
	})

	t.Run("ports", func(t *testing.T) {
		var st struct {
			Head   struct{ Address, Dashboard string }
			Keeper struct{ URL string }
		}
		text, err := os.ReadFile(filepath.Join(victim.home, ".local", "state", "rayctl", "clusters", "mine", "state.json"))
		if err == nil {
			err = json.Unmarshal(text, &st)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, url := range []string{st.Head.Dashboard + "/api/jobs/", st.Keeper.URL + "/v1/state"} {
			status := attacker.must(`python3 -c '
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers={"Authorization": "Bearer guess"}), timeout=60).status)
except urllib.error.HTTPError as error:
    print(error.code)' '` + url + `'`)
			if s := strings.TrimSpace(status); s != "401" && s != "403" {
				t.Errorf("%s answered %s", url, s)
			}
		}
	})
}

// beforeLocalLaunch sets traps at the paths that the nodes' directories had when their names followed from the cluster's name: one
// kind of trap for each of two nodes.
func beforeLocalLaunch(t *testing.T, victim, attacker *secondUser, name string) {
	run := filepath.Join(victim.home, ".local", "state", "rayctl", "clusters", name)
	for index, trap := range []string{"ln -s /tmp", "mkdir -m 777"} {
		key := strings.Join([]string{name, "1", run, strconv.Itoa(index), "0.0"}, "\x00")
		path := fmt.Sprintf("/tmp/r%x", sha256.Sum256([]byte(key)))[:len("/tmp/r12345678")]
		attacker.must(trap + " " + path)
		t.Cleanup(func() { os.Remove(path) })
	}
}

// onLocalLaunch launches below a directory in which everybody may rename others' files.
func onLocalLaunch(t *testing.T, victim *secondUser) {
	root, err := os.MkdirTemp("/tmp", "r")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o777); err != nil { //nolint:gosec // the point of the test
		t.Fatal(err)
	}
	r := victim.do("up", "trapped", "--set", "local.tmpDir="+root)
	if r.code != 73 {
		t.Errorf("up in a directory that everybody may change: %d, %s", r.code, r.err)
	}
	contains(t, "the error", r.err, root, "without the sticky bit")
	if r := victim.do("ls", "-o", "json"); strings.Contains(r.out, `"trapped"`) {
		t.Errorf("left: %s", r.out)
	}
}

var denied = regexp.MustCompile("Permission denied|Operation not permitted|can't cd to") // dash's cd gives no reason

// refused runs a script that must fail because it is not permitted, and not because something is not there.
func refused(t *testing.T, who *secondUser, script string) {
	t.Helper()
	if r := who.sh(script); r.code == 0 || !denied.MatchString(r.err) {
		t.Errorf("%s was not refused: %s: exit code %d, %s%s", who.name, script, r.code, r.out, r.err)
	}
}

// reportedDirs are the nodes' directories of a local cluster.
func reportedDirs(t *testing.T, runDir string) (dirs []string) {
	t.Helper()
	reports, err := filepath.Glob(filepath.Join(runDir, "nodes", "*", "report.json"))
	if err != nil || len(reports) == 0 {
		t.Fatalf("no reports in %s: %v", runDir, err)
	}
	for _, path := range reports {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, decode[struct{ Directory string }](t, string(text)).Directory)
	}
	return dirs
}

// found is find for what must be there.
func found(t *testing.T, dirs []string, name string) []string {
	t.Helper()
	paths := find(t, dirs, name)
	if len(paths) == 0 {
		t.Errorf("no %s below %v", name, dirs)
	}
	return paths
}

// find lists the entries of that name below the directories.
func find(t *testing.T, dirs []string, name string) (found []string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err == nil && filepath.Base(path) == name {
				found = append(found, path)
			}
			return nil // files removed meanwhile are no finding
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}
