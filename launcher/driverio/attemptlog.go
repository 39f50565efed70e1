package driverio

import (
	"io"
	"math"

	"github.com/rayctl/rayctl/dashboardclient/logstream"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// AttemptOutput is a Writer for an attempt's saved log. It passes on the output of job.prepare, and then the driver's, without the lines that Ray writes into the
// log.
type AttemptOutput struct {
	prepare, driver *logstream.DriverOutput
	left            int64 // the bytes of the log that are still job.prepare's
}

// NewAttemptOutput returns the AttemptOutput for an attempt of job j whose log is read from byte from on. driver is the submission id of the attempt's driver, begin
// the attempt's LogBegin.
func NewAttemptOutput(w io.Writer, j *runstate.Job, driver string, begin, from int64) *AttemptOutput {
	return ContinueAttempt(PrepareOutput(w, j, driver), logstream.NewDriverOutput(w, driver, j.Entrypoint), begin, from)
}

// PrepareOutput returns a Writer for the output of job.prepare, which removes Ray's lines.
func PrepareOutput(w io.Writer, j *runstate.Job, driver string) *logstream.DriverOutput {
	entrypoint := ""
	if j.Prepare != nil {
		entrypoint = j.Prepare.Entrypoint
	}
	return logstream.NewDriverOutput(w, runstate.PrepareID(driver), entrypoint)
}

// ContinueAttempt returns the AttemptOutput for the rest of an attempt's log, from byte from on. prepare and driver were used for the part before that, and may hold
// back the beginning of a line. begin is the attempt's LogBegin.
func ContinueAttempt(prepare, driver *logstream.DriverOutput, begin, from int64) *AttemptOutput {
	o := &AttemptOutput{prepare: prepare, driver: driver}
	o.begin(begin, from)
	return o
}

// begin sets the byte at which the driver's output begins, in a log that is read from byte from on.
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

// Flush is called at the log's end. It writes bytes that were held back because one of Ray's lines might have begun with them.
func (o *AttemptOutput) Flush() error {
	if o.left > 0 {
		if err := o.prepare.Flush(); err != nil {
			return err
		}
	}
	return o.driver.Flush()
}
