package driverio

import (
	"io"
	"math"

	"github.com/rayctl/rayctl/dashboardclient/logstream"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// AttemptOutput passes on an attempt's saved log without the lines that Ray writes into it: what job.prepare printed, and the driver's output after it.
type AttemptOutput struct {
	prepare, driver *logstream.DriverOutput
	left            int64 // of job.prepare's
}

// NewAttemptOutput is for the saved log, read from a byte on, of an attempt of the job: its driver's submission id, and its LogBegin.
func NewAttemptOutput(w io.Writer, j *runstate.Job, driver string, begin, from int64) *AttemptOutput {
	return ContinueAttempt(PrepareOutput(w, j, driver), logstream.NewDriverOutput(w, driver, j.Entrypoint), begin, from)
}

// PrepareOutput takes Ray's lines out of what job.prepare printed.
func PrepareOutput(w io.Writer, j *runstate.Job, driver string) *logstream.DriverOutput {
	entrypoint := ""
	if j.Prepare != nil {
		entrypoint = j.Prepare.Entrypoint
	}
	return logstream.NewDriverOutput(w, runstate.PrepareID(driver), entrypoint)
}

// ContinueAttempt is for the rest of an attempt's log, read from byte from on, with what its programs' outputs held back so far. begin: LogBegin.
func ContinueAttempt(prepare, driver *logstream.DriverOutput, begin, from int64) *AttemptOutput {
	o := &AttemptOutput{prepare: prepare, driver: driver}
	o.begin(begin, from)
	return o
}

// begin sets where the driver's log begins, in a log that is read from a byte on.
func (o *AttemptOutput) begin(begin, from int64) {
	o.left = max(0, begin-from)
	if begin == runstate.AllPrepare {
		o.left = math.MaxInt64
	}
}

// Write takes the next raw bytes of the log.
func (o *AttemptOutput) Write(p []byte) (int, error) {
	first := p[:min(int64(len(p)), o.left)]
	if len(first) > 0 {
		if n, err := o.prepare.Write(first); err != nil {
			return n, err
		}
		if o.left -= int64(len(first)); o.left == 0 {
			if err := o.prepare.Flush(); err != nil {
				return 0, err
			}
		}
	}
	if rest := p[len(first):]; len(rest) > 0 {
		if n, err := o.driver.Write(rest); err != nil {
			return len(first) + n, err
		}
	}
	return len(p), nil
}

// Flush writes what was held back as a possible beginning of one of Ray's lines. The log ends here.
func (o *AttemptOutput) Flush() error {
	if o.left > 0 {
		if err := o.prepare.Flush(); err != nil {
			return err
		}
	}
	return o.driver.Flush()
}
