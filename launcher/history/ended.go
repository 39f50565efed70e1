package history

import (
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Past is one cluster that has ended.
type Past struct {
	Name     string        `json:"name"`
	Launcher string        `json:"launcher"`
	Created  time.Time     `json:"created"`
	Ended    time.Time     `json:"ended"`
	Exit     runstate.Exit `json:"exit"`
	Command  string        `json:"command,omitempty"`
	// Jobs are those that were submitted to a cluster without a job of its own.
	Jobs   *runstate.EndedSubmissions `json:"jobs,omitempty"`
	Record bool                       `json:"record"` // output and result are still available
	// Elsewhere is where the record may be that was not looked for there, such as another namespace, or a Slurm that does not answer.
	Elsewhere string `json:"elsewhere,omitempty"`
	// Usage is unknown where a record has no timeline.
	Usage *launcher.Usage `json:"usage,omitempty"`
}

// Ended merges the records that launchers list, among them living clusters, with the receipts of this machine. looked reports whether the record of a receipt
// would have been found.
func Ended(records []launcher.Status, receipts []launcher.Receipt, looked func(*launcher.Receipt) bool) (list []Past) {
	seen := map[string]int{} // its place in list
	key := func(launcherName, name string, created time.Time) string {
		return launcherName + "/" + name + "/" + created.UTC().Format(time.RFC3339Nano)
	}
	for _, s := range records {
		if !s.Phase.Ended() || s.Exit == nil {
			continue
		}
		seen[key(s.Launcher, s.Name, s.Created)] = len(list)
		p := Past{Name: s.Name, Launcher: s.Launcher, Created: s.Created, Ended: s.Since, Exit: *s.Exit, Record: true, Jobs: s.EndedSubmissions}
		if s.Job != nil {
			p.Command = driverio.UserCommand(s.Job.Entrypoint)
		}
		if len(s.Timeline) > 0 {
			p.Usage = &launcher.NewReceipt(launcher.NewResult(s, launcher.LogInfo{}, nil)).Usage
		}
		list = append(list, p)
	}
	for _, rc := range receipts {
		if i, ok := seen[key(rc.Launcher, rc.Name, rc.Created)]; ok {
			list[i].Usage = &rc.Usage
			continue
		}
		p := Past{Name: rc.Name, Launcher: rc.Launcher, Created: rc.Created, Ended: rc.Ended, Exit: rc.Exit, Command: rc.Command, Jobs: rc.EndedSubmissions, Usage: &rc.Usage}
		if len(rc.Timeline) > 0 && !looked(&rc) { // a launch that was refused has no record anywhere
			p.Elsewhere = strings.TrimSpace(rc.Launcher + " " + rc.Where)
		}
		list = append(list, p)
	}
	return list
}
