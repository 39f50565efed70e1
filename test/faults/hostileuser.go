package faults

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
)

//go:embed hostile.py
var attackScript string

// Attack is another user of a machine, who attacks the clusters of a user there from their launch on. It runs in the background until it is ended.
type Attack struct {
	t     *testing.T
	in    io.WriteCloser
	out   *bufio.Reader
	wait  func() error
	notes bytes.Buffer
}

// AttackArguments are those of `python3` for an attack on a user's processes. addresses are further ones of the machine to listen on.
func AttackArguments(victim int, addresses ...string) []string {
	return append([]string{"-c", attackScript, fmt.Sprint(victim)}, addresses...)
}

// StartAttack starts the attack, which the command runs with AttackArguments, and returns when it looks for the victim's processes.
func StartAttack(t *testing.T, c *exec.Cmd) *Attack {
	t.Helper()
	a := &Attack{t: t, wait: c.Wait}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.in, a.out, c.Stderr = in, bufio.NewReader(out), &a.notes
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := a.out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the attack did not start: %q, %v, %s", line, err, a.notes.String())
	}
	return a
}

// End ends the attack. It fails the test if the attacker was sent a secret, or if there was no attack.
func (a *Attack) End() {
	a.t.Helper()
	a.in.Close()
	var found struct {
		Ports    []int
		Refused  map[string]int
		Idle     int
		Received []struct {
			Port  int
			Bytes string
		}
	}
	err := json.NewDecoder(a.out).Decode(&found)
	if ended := a.wait(); err != nil || ended != nil {
		a.t.Fatalf("the attack: %v, %v, %s", err, ended, a.notes.String())
	}
	a.t.Logf("the attacker listened on %d ports, could not on others (%v), and had %d idle connections", len(found.Ports), found.Refused, found.Idle)
	if len(found.Ports) == 0 || len(found.Refused) == 0 || found.Idle == 0 {
		a.t.Error("this was no attack")
	}
	for _, r := range found.Received {
		data, err := hex.DecodeString(r.Bytes)
		if text := strings.ToLower(string(data)); err != nil || strings.Contains(text, "authorization") || strings.Contains(text, "bearer") {
			a.t.Errorf("the attacker was sent a token on port %d: %q, %v", r.Port, data, err)
		}
	}
}
