package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os/exec"
	"strconv"
	"sync"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/launcher/tail"
)

// Files are the files of the site, reached by one long-lived command there (keeper/slurm_files.py): one connection for all
// reads, writes and watches, and no request to the controller. It is started when needed, and again when it was cut.
type Files struct {
	runner Runner

	mu      sync.Mutex
	session *session
}

// NewFiles returns the files of where the runner's commands run. It starts nothing yet.
func NewFiles(r Runner) *Files { return &Files{runner: r} }

// session is one run of the command.
type session struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  *tail.Tail // standard error
	done  chan struct{}

	mu      sync.Mutex
	next    int
	waiting map[int]chan answer
	err     error // why it ended
}

// answer is one line of the command.
type answer struct {
	ID    int    `json:"id"`
	Error string `json:"error"`
	Errno string `json:"errno"`
	body  []byte
}

// ErrCut is the end of the way to the site.
var ErrCut = errors.New("the connection was cut")

// FileError is an error of the site's file system.
type FileError struct {
	Errno string // its name, such as ENOSPC
	text  string
}

func (e *FileError) Error() string { return e.text }

// Is makes the usual kinds of errors recognisable.
func (e *FileError) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return e.Errno == "ENOENT"
	case fs.ErrExist:
		return e.Errno == "EEXIST"
	case fs.ErrPermission:
		return e.Errno == "EACCES" || e.Errno == "EPERM" || e.Errno == "EROFS"
	}
	return false
}

// Call runs one operation. If the connection is lost meanwhile, Call runs it once more: all operations may be repeated.
func (f *Files) Call(ctx context.Context, op string, request map[string]any, into any) error {
	err := f.callOnce(ctx, op, request, into)
	if errors.Is(err, ErrCut) && ctx.Err() == nil {
		err = f.callOnce(ctx, op, request, into)
	}
	return err
}

func (f *Files) callOnce(ctx context.Context, op string, request map[string]any, into any) error {
	s, err := f.open(ctx)
	if err != nil {
		return err
	}
	number, answers, err := s.send(op, request)
	if err != nil {
		f.leave(s)
		return err
	}
	defer s.forget(number)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return s.why()
	case a := <-answers:
		if a.Error != "" {
			return &FileError{a.Errno, a.Error}
		}
		if into == nil {
			return nil
		}
		return json.Unmarshal(a.body, into)
	}
}

// Watch sends whenever one of the files changes, at once for the first time, until ctx ends or the way is cut; then the channel is
// closed.
func (f *Files) Watch(ctx context.Context, paths []string) (<-chan struct{}, error) {
	s, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	number, answers, err := s.send("watch", map[string]any{"paths": paths})
	if err != nil {
		f.leave(s)
		return nil, err
	}
	out := make(chan struct{}, 1)
	go func() {
		defer close(out)
		defer s.forget(number)
		for {
			select {
			case <-ctx.Done():
				n, _, _ := s.send("stop", map[string]any{"watch": number}) // if it was cut there is nothing to stop
				s.forget(n)
				return
			case <-s.done:
				return
			case <-answers:
				select {
				case out <- struct{}{}:
				default:
				}
			}
		}
	}()
	return out, nil
}

// bootstrap reads the program from standard input: as an argument, everybody's ps would show all of it.
// Nor does it take modules from the current directory, where somebody else's json.py may lie.
const bootstrap = `import os, sys
sys.path = [p for p in sys.path if p]
need, text = int(sys.argv[1]), b""
while len(text) < need:
    more = os.read(0, need - len(text))
    if not more:
        sys.exit()
    text += more
exec(compile(text, "slurm_files.py", "exec"))`

// filesProgram serves a site's files to a client, for `python3 -c`: it brings the zip file there.
var filesProgram = keeperzip.Source("rayctl_keeper/state/model.py") + "\n" + keeperzip.Source("rayctl_keeper/slurm/attempts/after.py") + "\n" +
	keeperzip.Source("rayctl_keeper/run/shared.py") + "\n" + keeperzip.Source("slurm_files.py")

// open returns the session that runs, or starts one.
func (f *Files) open(ctx context.Context) (*session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session != nil {
		select {
		case <-f.session.done:
		default:
			return f.session, nil
		}
	}
	cmd := f.runner.Command(context.WithoutCancel(ctx), Marked("python3", "-u", "-c", bootstrap, strconv.Itoa(len(filesProgram)))...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s := &session{cmd: cmd, stdin: stdin, said: &tail.Tail{}, done: make(chan struct{}), waiting: map[int]chan answer{}}
	cmd.Stderr = s.said
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCut, err)
	}
	go s.read(stdout)
	if _, err := io.WriteString(stdin, filesProgram); err != nil {
		<-s.done
		return nil, s.why()
	}
	f.session = s
	return s, nil
}

// leave lets the next call start another session: this one takes nothing any more, though its end may not have been noticed.
func (f *Files) leave(s *session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session == s {
		f.session = nil
	}
}

func (s *session) send(op string, request map[string]any) (int, chan answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	number, answers := s.next, make(chan answer, 8)
	line := map[string]any{"id": number, "op": op}
	maps.Copy(line, request)
	text, err := json.Marshal(line)
	if err != nil {
		return 0, nil, err
	}
	s.waiting[number] = answers
	if _, err := s.stdin.Write(append(text, '\n')); err != nil {
		return number, nil, ErrCut
	}
	return number, answers, nil
}

func (s *session) forget(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, number)
}

func (s *session) read(stdout io.Reader) {
	lines := bufio.NewReaderSize(&SkipMark{From: stdout}, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		a := answer{body: line}
		if json.Unmarshal(line, &a) != nil {
			continue // what a program prints that Python runs at its start
		}
		s.mu.Lock()
		if c := s.waiting[a.ID]; c != nil {
			select {
			case c <- a:
			default: // the watch has been notified already
			}
		}
		s.mu.Unlock()
	}
	_ = s.stdin.Close() // it has ended: only its exit code is left
	err := s.cmd.Wait()
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	close(s.done)
}

// why is the command's last words.
func (s *session) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if said := s.said.LastLine(); said != "" {
		return fmt.Errorf("%w: %s", ErrCut, said)
	}
	if s.err != nil {
		return fmt.Errorf("%w: %w", ErrCut, s.err)
	}
	return ErrCut
}

// Close ends the session; the next call starts another.
func (f *Files) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session != nil {
		_ = f.session.stdin.Close()
		<-f.session.done
		f.session = nil
	}
}
