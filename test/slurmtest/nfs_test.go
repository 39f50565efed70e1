//go:build linux

package slurmtest

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/test/needs"
)

// TestNFS: hosts see the homes as clients of NFSv3 do.
func TestNFS(t *testing.T) {
	needs.Root(t)
	c := Start(t, Options{Nodes: 2, Users: []string{"alice"}, NFS: true})
	on := func(host int, user, script, want string) {
		t.Helper()
		cmd, err := c.NodeCommand(t.Context(), nodeName(host), user, "sh", "-c", script)
		if err != nil {
			t.Fatal(err)
		}
		out, _ := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); got != want {
			t.Errorf("%s on %s: %q printed %q, want %q", user, nodeName(host), script, got, want)
		}
	}
	home := c.Home("alice")

	on(1, "", "cat "+home+"/.profile; touch /"+c.Dir+"/shared/mine; stat -c %U /"+c.Dir+"/shared/mine", "cat: "+home+"/.profile: Permission denied\nnobody") // root_squash
	on(1, "alice", "umask 077; mkdir d; echo one > d/f; stat -c '%U %a' d d/f", "alice 700\nalice 600")
	on(1, "", "ls "+home+"/d", "ls: cannot access '"+home+"/d': Permission denied")

	on(2, "alice", "cat d/f; stat -c %s d/f; test -e d/g || echo none", "one\n4\nnone")
	on(1, "alice", "echo two >> d/f; echo g > d/g", "")
	on(2, "alice", "stat -c %s d/f; test -e d/g || echo none; cat d/f", "4\nnone\none\ntwo") // attributes and names as believed; open asks
	on(2, "alice", "ls d; cat d/g", "f\ng\ng")                                               // and so does a listing
	on(1, "alice", "rm d/g; echo new > d/h; mv d/h d/f", "")
	on(2, "alice", "cat d/f", "new") // the old file is stale

	on(1, "alice", "cd d; ln f l; ln -s f s; mkfifo p; stat -c '%h %F' f s p; cat s; rm l s p", "2 regular file\n1 symbolic link\n1 fifo\nnew")
	flat := c.WithoutLinks("alice")
	on(1, "alice", "mkdir "+flat+"; cd "+flat+"; echo x > f; ln f l; ls; mv f l; cat l", "ln: failed to create hard link 'l' => 'f': Operation not supported\nf\nx")
	on(1, "alice", "cd d; truncate -s 2 f; chmod 640 f; touch -d @5 f; stat -c '%s %a %Y' f", "2 640 5")
	on(1, "alice", "set -C; echo > d/x; (echo > d/x) 2>/dev/null || echo there", "there")                                                                                 // O_EXCL
	on(1, "alice", "cd d; exec 3<>x; rm x; echo kept >&3; ls -A | cut -c -4; exec 3>&-; ls -A", ".nfs\nf\nf")                                                             // silly rename
	on(1, "alice", "cd d; exec 3>>f; echo -n 1 >&3; setpriv true; echo -n 2 >&3; cat f", "ne12")                                                                          // appends
	on(1, "alice", "head -c 3000000 /dev/urandom > d/big; head -c 2500000 d/big | md5sum > d/sum; dd if=d/big bs=2500000 count=1 status=none | md5sum -c d/sum", "-: OK") // in pieces

	frozen(t, c, on)
	c.RequireClean(t)
}

// frozen: while the server does not answer everything waits, and nothing fails, also if the connection ends meanwhile.
func frozen(t *testing.T, c *Cluster, on func(host int, user, script, want string)) {
	t.Helper()
	if err := c.FreezeNFS(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		on(1, "alice", "echo late > d/late && cat d/late", "late")
	}()
	select {
	case <-done:
		t.Error("a file was written without the server")
	case <-time.After(time.Second):
	}
	on(1, "", "ss --kill dport = 2049 >/dev/null 2>&1 || echo cannot", "")
	if err := c.ThawNFS(); err != nil {
		t.Fatal(err)
	}
	<-done
	if text, err := os.ReadFile(c.Home("alice") + "/d/late"); string(text) != "late\n" {
		t.Errorf("the server has %q, %v", text, err)
	}
}
