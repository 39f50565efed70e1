package raytest

import (
	"fmt"
	"strings"
)

// Stop is a command of a driver that ends Ray's processes beside it, with what the end of its attempt says of it.
type Stop struct{ Command, Cause string }

// Stops are all of them.
var Stops = []Stop{
	{"ray stop", "raylet was ended by SIGTERM, which rayctl has not sent: `ray stop` or `pkill`"},
	{"ray stop --force", "raylet was ended by SIGKILL, which rayctl has not sent: `ray stop --force` or `pkill -9`"},
	{"pkill -9 raylet", "raylet was ended by SIGKILL, which rayctl has not sent: `ray stop --force` or `pkill -9`"},
	{"pkill -9 -f '[r]ay::'", "raylet has ended because its runtime_env_agent has: `ray stop` or `pkill`"},
}

// StopsDriver calls one of the commands in each attempt, and ends with this code in the one after them.
func StopsDriver(stops []Stop, code int) string {
	var script strings.Builder
	for i, stop := range stops {
		fmt.Fprintf(&script, "if [ $RAYCTL_ATTEMPT = %d ]; then %s; exec sleep 600; fi\n", i+1, stop.Command)
	}
	return fmt.Sprintf("%sexit %d", &script, code)
}
