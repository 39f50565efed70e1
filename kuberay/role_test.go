package kuberay_test

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/pace"
)

// TestRolePerCommand: each command of the guide's table works for a user who has the permissions of the table and nothing else, and Secrets only by their name; and by
// the API server's audit log it uses all of that, except what depends on versions and on what fails.
func TestRolePerCommand(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	roles, used := rolesOfCommands(t, "roles"), map[string]bool{}
	all := newUser(t, b.kubeconfig)
	b.nothingLeft(t, "roles")
	const small = " --image rayproject/ray:2.60.0 --set head.cpus=0.2 --set head.memory=2Gi"
	const elastic = " --set workers=[{\"name\":\"w\",\"minReplicas\":0,\"maxReplicas\":1,\"cpus\":0.2,\"memory\":\"2Gi\"}]"
	for _, c := range []struct{ command, args, want string }{
		{"up", "up --name roles" + small + elastic, ""}, {"ls", "ls", "roles"}, {"status", "status roles", "Ready"}, {"exec", "exec roles -- echo inside", "inside"},
		{"scale", "scale roles w=0:1", "w: "},
		{"submit", "submit -c roles --submission-id one -- echo submitted", "submitted"}, {"jobs", "jobs roles", "SUCCEEDED"}, {"logs", "logs roles", "submitted"},
		{"events", "events roles", "Ready"}, {"wait", "wait --ready -o name roles", "roles"}, {"extend", "extend roles --max 400d", "roles ends at"},
		{"stop", "stop roles one", ""}, {"top", "top roles", "GPU%"}, {"serve", "serve status -c roles", ""}, {"gc", "gc --dry-run", ""},
		{"cp", "cp /etc/hosts roles:/tmp/copied", ""}, {"dashboard", "dashboard roles", "http://127.0.0.1:"}, {"port-forward", "port-forward roles 8265", "127.0.0.1:"},
		{"env", "env roles", "export RAY_ADDRESS="}, {"debug-dump", "debug-dump roles -o roles.tar.gz", ""},
		{"down", "down roles", ""}, {"history", "history", "roles"}, {"logs", "logs roles", "submitted"}, {"logs", "logs roles one", "submitted"}, {"logs", "jobs roles", "SUCCEEDED"}, {"logs", "wait roles one", ""},
		{"run", "run --name roles" + small + " -- echo run", "run"}, {"logs", "logs roles", "run"},
	} {
		if c.command == "run" {
			if err := b.l.Forget(t.Context(), "roles"); err != nil {
				t.Fatal(err)
			}
		}
		u := *all
		u.env = append(slices.Clone(all.env), "KUBECONFIG="+b.LimitedKubeconfig(t, b.namespace, roles[c.command]...))
		before := len(b.Requests(t, b.namespace))
		run := u.does
		if c.command == "dashboard" || c.command == "port-forward" {
			run = u.serves
		}
		at := 1
		if c.command == "serve" {
			at = 2
		}
		a := run(t, slices.Insert(strings.Fields(c.args), at, "--launcher", "kuberay")...)
		if a.code != 0 || !strings.Contains(a.out, c.want) {
			t.Errorf("rayctl %s: code %d, want %q\n%s%s", c.args, a.code, c.want, a.out, a.notes)
		}
		for _, r := range b.Requests(t, b.namespace)[before:] {
			if r.Object != nil {
				used[c.command+": "+r.Verb+" "+strings.TrimSuffix(r.Object.Resource+"/"+r.Object.Subresource, "/")] = true
			}
		}
	}
	b.inTheTable(t, all, roles)
	for command, rules := range roles {
		for _, rule := range rules {
			what := command + ": " + rule.Verbs[0] + " " + rule.Resources[0]
			switch {
			case used[what], rule.Verbs[0] == "list" && used[command+": watch "+rule.Resources[0]], // which older API servers want before a watch
				rule.Verbs[0] == "create" && used[command+": get "+rule.Resources[0]], // of connections, from 1.35 on
				rule.Resources[0] == "pods/log",                                       // of a run that ends before its output is read: the record has it
				rule.Verbs[0] == "watch" && connects(used, command),                   // begins beside the connection to a pod, perhaps after a short command has ended
				rule.Verbs[0] == "delete":                                             // of what could not be made whole, or has no keeper to end it
			default:
				t.Errorf("the guide has what is not needed: %s", what)
			}
		}
	}
}

// rolesOfCommands are the rules of each command in the guide's table, by command.
func rolesOfCommands(t *testing.T, name string) map[string][]rbacv1.PolicyRule {
	t.Helper()
	guide, err := os.ReadFile("../docs/kuberay-reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(guide), "### The smallest Role for a command")
	table, _, _ = strings.Cut(table, "\n##")
	out := map[string][]rbacv1.PolicyRule{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		var rules []rbacv1.PolicyRule
		for _, text := range quoted(cells[2]) {
			verbs, resources, _ := strings.Cut(text, " ")
			for _, resource := range strings.Split(resources, ", ") {
				plain, group, _ := strings.Cut(resource, ".")
				for _, verb := range strings.Split(verbs, ",") {
					rule := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{plain}, Verbs: []string{verb}}
					if plain == "secrets" && verb != "create" {
						rule.ResourceNames = []string{name + "-rayctl"}
					}
					rules = append(rules, rule)
				}
			}
		}
		for _, command := range quoted(cells[1]) {
			out[command] = rules
		}
	}
	return out
}

// quoted are the parts of a text between backquotes.
func quoted(text string) (out []string) {
	for i, part := range strings.Split(text, "`") {
		if i%2 == 1 {
			out = append(out, part)
		}
	}
	return out
}

// serves runs a command that prints an address and serves it until it is interrupted, which is its normal end; it is connected to once.
func (u *user) serves(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	c := exec.CommandContext(ctx, u.rayctl, args...)
	c.Env, c.Dir = u.env, t.TempDir()
	var notes bytes.Buffer
	c.Stderr = &notes
	out, err := c.StdoutPipe()
	if err != nil || c.Start() != nil {
		t.Fatalf("rayctl %q does not start: %v", args, err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		url := "http://" + strings.TrimPrefix(strings.TrimSpace(line), "http://")
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if page, err := http.DefaultClient.Do(request); err != nil {
			t.Errorf("rayctl %q: %v", args, err)
		} else {
			page.Body.Close()
		}
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	_ = c.Wait()
	return result{line, notes.String(), c.ProcessState.ExitCode()}
}

// inTheTable: each command that asks Kubernetes is in the guide's table.
func (b bed) inTheTable(t *testing.T, u *user, roles map[string][]rbacv1.PolicyRule) {
	t.Helper()
	without := []string{"advise", "init", "render", "validate", "schema", "version", "help", "completion"}
	for line := range strings.Lines(u.succeeds(t, "doctor", "__complete", "").out) {
		name, about, isCommand := strings.Cut(strings.TrimSpace(line), "\t")
		if _, ok := roles[name]; isCommand && about != "" && !ok && !slices.Contains(without, name) {
			t.Errorf("the guide does not say what %s needs", name)
		}
	}
}

// connects reports whether a command has connected to a pod, and any command has watched the pod of its connection.
func connects(used map[string]bool, command string) bool {
	watched := false
	for what := range used {
		watched = watched || strings.HasSuffix(what, ": watch pods")
	}
	return watched && (used[command+": get pods/portforward"] || used[command+": create pods/portforward"])
}

// TestMinimalRole takes a run through its life with the Role of the guide and nothing else, of which even less is enough: a Role that names the Secrets lets clusters
// of this name live, and doctor reports that; others are refused before anything is left. With the Role itself doctor is content, and nothing stays in the end.
func TestMinimalRole(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	whole := b.limited(t, minimalRole(t))
	for _, check := range whole.Check(t.Context(), nil) {
		if !check.OK {
			t.Errorf("doctor: %s: %s", check.Name, check.Detail)
		}
	}
	var rules []rbacv1.PolicyRule
	for _, r := range minimalRole(t) {
		if r.Resources[0] != "secrets" {
			rules = append(rules, r)
		}
	}
	oneSecret := permit("secrets", "get", "patch")
	oneSecret.ResourceNames = []string{"named-rayctl"}
	l := b.limited(t, append(rules, permit("secrets", "create"), oneSecret))
	s := named("named", waitingDriver)
	if c := findings(t, l, s)["permissions"]; !c.OK || !strings.Contains(c.Detail, "the only Secret that you may get is named-rayctl, so the cluster must have this name") {
		t.Errorf("doctor: %+v", c)
	}
	fails(t, findings(t, l, named("another", "true")), "permissions", "not permitted: get secrets, patch secrets")
	r := b.begin(t, l, s)
	r.printed(t, "begun\n")
	other := kuberay.New(kuberay.Config{Kubeconfig: b.LimitedKubeconfig(t, b.namespace, append(slices.Clone(rules), oneSecret)...)})
	e, err := other.Dial(t.Context(), r.id, launcher.Dashboard)
	if err != nil {
		t.Errorf("another client: %v", err)
	} else {
		e.Close()
	}
	b.release(t, r.id)
	r.wantEnd(t, "succeeded", 0, "begun\ndone\n")
	_, err = l.Launch(t.Context(), named("another", "echo never"), launcher.Payload{})
	wantRefusal(t, err, runstate.CodePermission, "secrets")
	b.awaitNothing(t, "another")
	if err := whole.Forget(t.Context(), r.id); err != nil {
		t.Errorf("forget: %v", err)
	}
	b.NothingLeft(t, b.namespace, nil)
}
