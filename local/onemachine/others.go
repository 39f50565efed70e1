package onemachine

import (
	"fmt"
	"os"
	"os/user"
	"regexp"
	"strconv"
	"strings"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/local/proc"
)

// Flags of Ray's gcs_server process, by which its cluster is known.
var (
	gcsServer  = regexp.MustCompile(`(^|/)gcs_server( |$)`)
	gcsPort    = regexp.MustCompile(`--gcs_server_port=(\d+)`)
	gcsAddress = regexp.MustCompile(`--node-ip-address=(\S+)`)
	gcsSession = regexp.MustCompile(`--session-name=(\S+)`)
)

// otherClusters lists heads of Ray clusters on this machine but those whose sessions are ours. name is the launcher's, host this machine's.
func otherClusters(name, host string, ours map[string]bool) ([]launcher.Status, error) {
	table, err := proc.Table()
	if err != nil {
		return nil, noProcessTable(err)
	}
	var out []launcher.Status
	for _, p := range table {
		line := proc.CommandLine(p)
		if p.Zombie || !gcsServer.MatchString(line) {
			continue
		}
		session := firstMatch(gcsSession, line)
		if ours[session] {
			continue
		}
		out = append(out, launcher.Status{
			Name: session, Launcher: name, Owner: ownerOf(p.UID) + "@" + host, Where: fmt.Sprintf("pid %d", p.PID),
			Phase: runstate.Ready, Reason: runstate.Reason{Message: whose(p.UID)}, Attempt: 1, Theirs: p.UID != os.Getuid(),
			Head: runstate.Head{Address: strings.Trim(firstMatch(gcsAddress, line)+":"+firstMatch(gcsPort, line), ":"), Session: session},
		})
	}
	return out, nil
}

// whose describes a Ray that belongs to none of this user's clusters. The records of another user's clusters cannot be read.
func whose(uid int) string {
	if uid != os.Getuid() {
		return "another user's; only that user can see whether rayctl made it"
	}
	return "not made by rayctl on this machine"
}

func firstMatch(pattern *regexp.Regexp, s string) string {
	if m := pattern.FindStringSubmatch(s); m != nil {
		return m[1]
	}
	return ""
}

func ownerOf(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
}

// noProcessTable is the error of a process table that cannot be read.
func noProcessTable(err error) error {
	return launcher.Fail(runstate.CodeInternal, err, "`ps -e` must list this machine's processes for you", "the process table cannot be read: %v", err)
}
