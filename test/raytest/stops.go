package raytest

import (
	"fmt"
	"regexp"
	"strings"
)

// Stop is a command of a driver that ends Ray's processes beside it, with what the end of its attempt says of it.
type Stop struct {
	Command string
	Cause   *regexp.Regexp
}

// Stops are all of them. `ray stop` sends SIGKILL to what has not ended 5 s after SIGTERM, as on a busy machine. The last command kills both agents of the raylet, which names the one
// that it sees first.
var Stops = []Stop{
	{"ray stop", regexp.MustCompile("\\w+ was ended by SIG(TERM|KILL), which rayctl has not sent: `ray stop` or `pkill")},
	{"ray stop --force", regexp.MustCompile("raylet was ended by SIGKILL, which rayctl has not sent: `ray stop` or `pkill -9`")},
	{"pkill -9 raylet", regexp.MustCompile("raylet was ended by SIGKILL, which rayctl has not sent: `ray stop` or `pkill -9`")},
	{"pkill -9 -f '[r]ay::'", regexp.MustCompile("raylet has ended because its (runtime_env|dashboard)_agent has: `ray stop` or `pkill`")},
}

// StopsDriver calls one of the commands in each attempt, and ends with this code in the one after them.
func StopsDriver(stops []Stop, code int) string {
	var script strings.Builder
	for i, stop := range stops {
		fmt.Fprintf(&script, "if [ $RAYCTL_ATTEMPT = %d ]; then %s; exec sleep 600; fi\n", i+1, stop.Command)
	}
	return fmt.Sprintf("%sexit %d", &script, code)
}
