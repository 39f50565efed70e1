package measure

import "context"

// Measure is one experiment with one or more rows of the table.
type Measure struct {
	Name string // for -only
	Run  func(context.Context, *Bench) ([]Row, error)
}

// Unchanged is the measure that wants -base.
const Unchanged = "unchanged"

// Local are the measures on this machine, in the order of the table. The first one limits its commands' memory: the kernel adds the memory of the
// process that starts a command, so that this process must still be small. The last ones need the machine for themselves.
func Local() []Measure {
	return []Measure{
		{"submit", measureSubmit},
		{"jobs", measureJobs},
		{"latency", measureLatency},
		{"lines", measureLines},
		{"longline", measureLongLine},
		{"pack", measurePack},
		{"run", measureRun},
		{"ranks", measureRanks},
		{"install", measureInstall},
		{"version", measureVersion},
		{Unchanged, measureUnchanged},
	}
}
