package clusters

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// gpuTable has what was measured of the nodes' GPUs.
func gpuTable(w io.Writer, all []runstate.GPUUse) error {
	rows := [][]string{{"GPUS OF", "COUNT", "MEASURED", "BUSY", "SHARE", "MESSAGE"}}
	for _, g := range all {
		rows = append(rows, []string{g.Node, strconv.Itoa(g.Count), fmt.Sprintf("%.0f s", g.Seconds), fmt.Sprintf("%.0f s", g.BusySeconds), launcher.Share(g.BusySeconds, g.Seconds), g.Message})
	}
	return terminal.Table(w, rows)
}

// groupTable has the sizes of the worker groups.
func groupTable(w io.Writer, all []runstate.Group) error {
	rows := [][]string{{"GROUP", "READY", "WANTED", "MIN", "MAX"}}
	for _, g := range all {
		least, most := "-", "-"
		if g.Elastic() {
			least, most = strconv.Itoa(g.Min), strconv.Itoa(g.Max)
		}
		rows = append(rows, []string{g.Name, strconv.Itoa(g.Ready), strconv.Itoa(g.Wanted), least, most})
	}
	return terminal.Table(w, rows)
}

// allocationTable lists the requests to the substrate.
func allocationTable(w io.Writer, all []runstate.Allocation) error {
	rows := [][]string{{"ALLOCATION", "STATE", "GRANTED", "RELEASED", "MESSAGE"}}
	stamp := func(at *time.Time) string {
		if at == nil {
			return "-"
		}
		return terminal.Stamp(w, *at)
	}
	for _, a := range all {
		message := strings.Trim(a.Where+"; "+a.Message, "; ")
		if a.Expected != nil {
			message += "; expected to start at " + terminal.Stamp(w, *a.Expected)
		}
		rows = append(rows, []string{a.ID, a.State, stamp(a.Granted), stamp(a.Released), message})
	}
	return terminal.Table(w, rows)
}
