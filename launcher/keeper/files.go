package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// Files are what a keeper writes: in a RunDir, or copies of that in a directory for others.
type Files struct {
	Open func(name string) (*os.File, error)
}

// State reads the final state document if it exists, else the current one; fs.ErrNotExist before the keeper started.
func (f Files) State() (*runstate.State, error) {
	state, err := f.Result()
	if errors.Is(err, fs.ErrNotExist) {
		err = f.decode(StateFile, state)
	}
	return state, err
}

// Result reads the final state document; fs.ErrNotExist while the keeper lives, and permanently if the keeper was killed.
func (f Files) Result() (*runstate.State, error) {
	state := &runstate.State{}
	return state, f.decode(ResultFile, state)
}

// AttemptLog is the file that keeps the output of an attempt after the next one started.
func AttemptLog(attempt int) string { return fmt.Sprintf("driver-%d.log", attempt) }

// OpenLog opens the keeper's copy of an attempt's output (0: the last attempt's) at a byte offset. Without a copy the reader is empty.
func (f Files) OpenLog(attempt int, offset int64) (io.ReadCloser, error) {
	current := attempt == 0 || f.isCurrent(attempt)
	name := DriverLog // an earlier attempt's log was renamed
	if !current {
		name = AttemptLog(attempt)
	}
	file, err := f.Open(name)
	if err == nil && current && attempt != 0 && !f.isCurrent(attempt) { // it was renamed meanwhile: this may be the next one's
		_ = file.Close()
		return f.OpenLog(attempt, offset)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(strings.NewReader("")), nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the driver's log: %w", err)
	}
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(fmt.Errorf("read the driver's log from byte %d: %w", offset, err), file.Close())
	}
	return file, nil
}

// isCurrent reports whether driver.log belongs to that attempt. The state has the attempt that the keeper ran last.
func (f Files) isCurrent(attempt int) bool {
	st, err := f.State()
	return err == nil && st.Attempt == attempt
}

// DocumentError is the error of a file that no keeper wrote.
type DocumentError struct {
	Path string
	Err  error
}

func (e *DocumentError) Error() string { return "read " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *DocumentError) Unwrap() error { return e.Err }

// decode reads a document, of which no keeper writes a longer one than longestState.
func (f Files) decode(name string, document any) error {
	file, err := f.Open(name)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, longestState+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", file.Name(), err)
	}
	if int64(len(text)) > longestState {
		return &DocumentError{file.Name(), fmt.Errorf("it has more than %d MiB", longestState>>20)}
	}
	if err := json.Unmarshal(text, document); err != nil {
		return &DocumentError{file.Name(), err}
	}
	return nil
}
