package keeper

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sharedfile"
)

// RunDir is the directory that a cluster's client, keeper and supervisors share.
type RunDir string

// NewToken makes a cluster's secret: 64 hexadecimal digits.
func NewToken() string {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails (crypto/rand)
	return hex.EncodeToString(secret)
}

// reserveSize is RESERVE_SIZE of keeper/rayctl_keeper/state/document.py.
const reserveSize = 256 << 10

// Prepare makes the directory (mode 0700, parents too) and writes the files that a keeper needs to start. It writes the reserve first, so that a full disk
// is an error before anything else is begun. secrets may be nil.
// A directory that has orders already is an error wrapping fs.ErrExist.
func (d RunDir) Prepare(orders *Orders, token string, secrets map[string]string) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fmt.Errorf("make the run directory: %w", err)
	}
	if _, err := os.Lstat(d.path(OrdersFile)); err == nil {
		return fmt.Errorf("run directory %s is in use: %w", d, fs.ErrExist)
	}
	if err := d.write(ReserveFile, make([]byte, reserveSize)); err != nil {
		return err
	}
	if len(secrets) > 0 {
		if err := d.writeJSON(SecretsFile, secrets); err != nil {
			return err
		}
	}
	if err := d.write(TokenFile, []byte(token)); err != nil {
		return err
	}
	return d.writeJSON(OrdersFile, orders)
}

// Room returns the error of writing a file as large as the keeper's documents. It removes the file.
func (d RunDir) Room() error {
	const name = ".room"
	err := d.write(name, make([]byte, 16<<10))
	_ = os.Remove(d.path(name)) // a failed write leaves no file
	return err
}

// Commit commits the launch. The packages are in the directory already.
func (d RunDir) Commit(commit Commit) error { return d.writeJSON(CommitFile, commit) }

// Committed reports whether the launch was committed.
func (d RunDir) Committed() bool {
	_, err := os.Stat(d.path(CommitFile))
	return err == nil
}

// Orders reads the orders; the error is fs.ErrNotExist if there are none.
func (d RunDir) Orders() (*Orders, error) {
	orders := &Orders{}
	return orders, d.readJSON(OrdersFile, orders)
}

// State reads the final state document if it exists, else the current one; fs.ErrNotExist before the keeper started.
func (d RunDir) State() (*runstate.State, error) { return d.files().State() }

// Result reads the final state document; fs.ErrNotExist while the keeper lives, and permanently if the keeper was killed.
func (d RunDir) Result() (*runstate.State, error) { return d.files().Result() }

// Token reads the bearer token of the keeper's API; fs.ErrNotExist after the end.
func (d RunDir) Token() (string, error) { return d.readToken(TokenFile) }

// RayToken reads the token of a head, and returns the path of its file; fs.ErrNotExist after the end of that head. A later head has another file, so that its token
// is never sent to an earlier one's address.
func (d RunDir) RayToken(of runstate.Head) (token, path string, err error) {
	name := RayTokenName(of)
	token, err = d.readToken(name)
	return token, d.path(name), err
}

// RayTokenName is the file with Ray's token in a run directory. A keeper of an earlier rayctl, whose cluster may still live, has made no token for its head: Ray has
// the API's there.
func RayTokenName(of runstate.Head) string { return cmp.Or(of.TokenFile, TokenFile) }

func (d RunDir) readToken(name string) (string, error) {
	text, err := os.ReadFile(d.path(name))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// OpenLog opens the keeper's copy of an attempt's output (0: the last attempt's) at a byte offset. Without a copy the reader is empty.
func (d RunDir) OpenLog(attempt int, offset int64) (io.ReadCloser, error) {
	return d.files().OpenLog(attempt, offset)
}

func (d RunDir) files() Files {
	return Files{Open: func(name string) (*os.File, error) { return os.Open(d.path(name)) }}
}

func (d RunDir) path(name string) string { return filepath.Join(string(d), name) }

func (d RunDir) writeJSON(name string, document any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return d.write(name, text)
}

// write writes a file atomically, mode 0600.
func (d RunDir) write(name string, content []byte) error {
	if err := sharedfile.Write(d.path(name), content, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (d RunDir) readJSON(name string, document any) error { return d.files().decode(name, document) }
