package controller

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"os/user"
	"regexp"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// tokenVariable is the environment variable from which Slurm's own clients take their token.
const tokenVariable = "SLURM_JWT"

// token is a JSON web token of slurmrestd. Its text is never printed.
type token struct {
	text string
	user string // the user whom the token names
}

var jwt = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*$`)

// readToken reads the token from the file, or from the variable if there is no file. Callers read it again for each request, because a renewed token replaces the
// file.
func readToken(file string) (token, error) {
	text, where, err := os.Getenv(tokenVariable), "the variable "+tokenVariable, error(nil)
	if file != "" {
		where = file
		if text, err = secretFile(file); err != nil {
			return token{}, err
		}
	}
	text = strings.TrimPrefix(strings.TrimSpace(text), tokenVariable+"=") // as `scontrol token` prints it
	hint := "make one with `scontrol token` on a login node, write it to a file of mode 0600, and set slurm.restTokenFile to that file"
	if text == "" {
		return token{}, launcher.Fail(runstate.CodeConfig, nil, hint, "there is no token for slurmrestd in %s", where)
	}
	if !jwt.MatchString(text) {
		return token{}, launcher.Fail(runstate.CodeConfig, nil, hint, "%s does not have a JSON web token", where)
	}
	t := token{text: text}
	claims := claimsOf(text)
	if t.user = claims.Sun; t.user == "" {
		if me, err := user.Current(); err == nil {
			t.user = me.Username
		}
	}
	if end := time.Unix(int64(claims.Exp), 0); claims.Exp > 0 && time.Now().After(end) {
		return token{}, launcher.Fail(runstate.CodePermission, nil, "make another with `scontrol token` on a login node", "the token for slurmrestd in %s expired at %s", where, launcher.Stamp(end))
	}
	return t, nil
}

// secretFile reads a file that nobody else may read.
func secretFile(name string) (string, error) {
	info, err := os.Stat(name)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return "", launcher.Fail(runstate.CodeConfig, nil, "run `chmod 600` on it, and make another token", "others may read the token in %s", name)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return "", launcher.Fail(runstate.CodeConfig, err, "correct slurm.restTokenFile", "the token for slurmrestd cannot be read: %v", err)
	}
	return string(text), nil
}

// claims are the claims of Slurm's tokens (slurm/src/plugins/auth/jwt): the user and the time of expiry. Sites that issue their own tokens may use other claims.
type claims struct {
	Sun string  `json:"sun"`
	Exp float64 `json:"exp"`
}

// claimsOf reads a token's claims, unverified: slurmrestd verifies them.
func claimsOf(text string) (c claims) {
	middle := strings.Split(text, ".")[1]
	if payload, err := base64.RawURLEncoding.DecodeString(middle); err == nil {
		_ = json.Unmarshal(payload, &c) // of other kinds of tokens the expiry is not known
	}
	return c
}
