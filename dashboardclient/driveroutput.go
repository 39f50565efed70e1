package dashboardclient

import "io"

// DriverOutput passes on what the driver wrote, and leaves out the lines that Ray itself writes into a driver's log. It is given the
// raw bytes of one log from its first byte on, whichever way they come: live, or from a saved copy.
type DriverOutput struct {
	w     io.Writer
	strip *stripper
}

// NewDriverOutput writes to w what the driver of this job, submitted with exactly this entrypoint, printed.
func NewDriverOutput(w io.Writer, submissionID, entrypoint string) *DriverOutput {
	return &DriverOutput{w: w, strip: newStripper(submissionID, entrypoint, 0)}
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

// Flush writes what was held back because it could have become one of Ray's lines. The log ends here.
func (d *DriverOutput) Flush() error {
	out := d.strip.flush()
	if len(out) == 0 {
		return nil
	}
	_, err := d.w.Write(out)
	return err
}
