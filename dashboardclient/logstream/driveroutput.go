package logstream

import "io"

// DriverOutput passes on the driver's output and removes the lines that Ray itself writes into a driver's log. Its input is the
// raw bytes of one log from the first byte on, live or from a saved copy.
type DriverOutput struct {
	w     io.Writer
	strip *Stripper
}

// NewDriverOutput writes to w the output of the driver of this job, which was submitted with exactly this entrypoint.
func NewDriverOutput(w io.Writer, submissionID, entrypoint string) *DriverOutput {
	return &DriverOutput{w: w, strip: NewStripper(submissionID, entrypoint, 0)}
}

// Write takes the next raw bytes of the log.
func (d *DriverOutput) Write(p []byte) (int, error) {
	if out := d.strip.push(p); len(out) > 0 {
		if _, err := d.w.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Flush writes bytes held back as a possible beginning of one of Ray's lines. The log ends here.
func (d *DriverOutput) Flush() error {
	out := d.strip.flush()
	if len(out) == 0 {
		return nil
	}
	_, err := d.w.Write(out)
	return err
}
