// Package units has the amounts of the cluster file: durations, limits, counts, CPUs and Kubernetes quantities, as they are written.
package units

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Duration is a length of time, written 90s, 3d12h, 3-12:00:00 (Slurm's days-hours:minutes:seconds) or 0.
type Duration time.Duration

// Limit is a time limit. The zero value means not given; NoLimit, written 0 or unlimited, means explicitly none.
type Limit time.Duration

// NoLimit is the Limit written 0 or unlimited.
const NoLimit Limit = -1

// Count is a number of times, or Unlimited.
type Count int

// Unlimited is the Count written unlimited.
const Unlimited Count = -1

// Each is how many processes run on a node: a number, or EachGPU. Zero means not given.
type Each int

// EachGPU is the Each written gpu: one for each GPU of the node.
const EachGPU Each = -1

// CPUs is a number of CPU cores, written as a number or a Kubernetes quantity such as 500m. Zero means not given.
type CPUs float64

// Bound returns the limit and true, or false if there is no limit.
func (l Limit) Bound() (time.Duration, bool) { return time.Duration(l), l > 0 }

var (
	clockTime = regexp.MustCompile(`^(?:(\d+)-)?(\d+)(?::(\d{1,2}))?(?::(\d{1,2}))?$`)
	goTime    = regexp.MustCompile(`^(?:(\d+(?:\.\d+)?)w)?(?:(\d+(?:\.\d+)?)d)?((?:\d+(?:\.\d+)?(?:h|m|s|ms))*)$`)
)

// errTooLong is that of a duration that has no room in Go's.
var errTooLong = errors.New("is longer than a duration can be (146 years)")

var errDuration = errors.New("is not a duration; write it like 90s, 30m, 3d12h, 1w or 3-12:00:00")

// ParseDuration reads 90s, 3d12h, 2w, Slurm's 3-12:00:00 and 1:30:00, and 0. A bare number other than 0 has no unit and is an
// error, because Slurm would read it as minutes and most others as seconds.
func ParseDuration(s string) (time.Duration, error) {
	if s == "0" {
		return 0, nil
	}
	var seconds float64
	var err error
	switch {
	case s == "":
		err = errDuration
	case strings.ContainsAny(s, "-:"):
		seconds, err = clockSeconds(s)
	default:
		seconds, err = unitSeconds(s)
	}
	if err != nil {
		return 0, fmt.Errorf("%q %w", s, err)
	}
	if seconds > math.MaxInt64/float64(time.Second)/2 {
		return 0, fmt.Errorf("%q %w", s, errTooLong)
	}
	return time.Duration(math.Round(seconds*1e6)) * time.Microsecond, nil
}

// clockSeconds reads days-hours[:minutes[:seconds]], hours:minutes:seconds and minutes:seconds, as sbatch --time does.
func clockSeconds(s string) (float64, error) {
	m := clockTime.FindStringSubmatch(s)
	if m == nil {
		return 0, errDuration
	}
	n := func(i int) float64 { f, _ := strconv.ParseFloat(m[i], 64); return f }
	switch {
	case m[1] != "":
		return n(1)*86400 + n(2)*3600 + n(3)*60 + n(4), nil
	case m[4] != "":
		return n(2)*3600 + n(3)*60 + n(4), nil
	default:
		return n(2)*60 + n(3), nil
	}
}

func unitSeconds(s string) (float64, error) {
	m := goTime.FindStringSubmatch(s)
	if m == nil {
		return 0, errDuration
	}
	var rest time.Duration
	if m[3] != "" {
		var err error
		if rest, err = time.ParseDuration(m[3]); err != nil {
			return 0, errDuration
		}
	}
	weeks, _ := strconv.ParseFloat("0"+m[1], 64)
	days, _ := strconv.ParseFloat("0"+m[2], 64)
	return weeks*7*86400 + days*86400 + rest.Seconds(), nil
}

// FormatDuration writes a duration as ParseDuration reads it, with days: 3d12h, 1h30m, 90s becomes 1m30s, 0 is 0s.
func FormatDuration(d time.Duration) string {
	if d < 24*time.Hour {
		return trimZeroUnits(d.String())
	}
	days := d / (24 * time.Hour)
	rest := d - days*24*time.Hour
	if rest == 0 {
		return fmt.Sprintf("%dd", days)
	}
	return fmt.Sprintf("%dd%s", days, trimZeroUnits(rest.String()))
}

func trimZeroUnits(s string) string {
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (d Duration) String() string { return FormatDuration(time.Duration(d)) }

// MarshalText writes the duration as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// UnmarshalJSON also takes the bare number 0.
func (d *Duration) UnmarshalJSON(b []byte) error { return unmarshalScalarJSON(b, d) }

func (l Limit) String() string {
	if l == NoLimit {
		return "unlimited"
	}
	return FormatDuration(time.Duration(l))
}

// MarshalText writes the limit as String does.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what ParseDuration reads, and unlimited.
func (l *Limit) UnmarshalText(b []byte) error {
	if string(b) == "unlimited" {
		*l = NoLimit
		return nil
	}
	v, err := ParseDuration(string(b))
	if err != nil {
		if errors.Is(err, errTooLong) {
			return fmt.Errorf("%w: write a shorter one, or unlimited", err)
		}
		return fmt.Errorf("%w, or unlimited", err)
	}
	if *l = Limit(v); v == 0 {
		*l = NoLimit
	}
	return nil
}

// UnmarshalJSON also takes the bare number 0.
func (l *Limit) UnmarshalJSON(b []byte) error { return unmarshalScalarJSON(b, l) }

func (c Count) String() string {
	if c == Unlimited {
		return "unlimited"
	}
	return strconv.Itoa(int(c))
}

// MarshalJSON writes a number, or "unlimited".
func (c Count) MarshalJSON() ([]byte, error) {
	if c == Unlimited {
		return []byte(`"unlimited"`), nil
	}
	return []byte(c.String()), nil
}

// UnmarshalText reads a whole number from 0, or unlimited.
func (c *Count) UnmarshalText(b []byte) error {
	if string(b) == "unlimited" {
		*c = Unlimited
		return nil
	}
	n, err := strconv.ParseUint(string(b), 10, 31)
	if err != nil {
		return fmt.Errorf("%q is not a count; write a whole number from 0, or unlimited", b)
	}
	*c = Count(n)
	return nil
}

// UnmarshalJSON takes a number or "unlimited".
func (c *Count) UnmarshalJSON(b []byte) error { return unmarshalScalarJSON(b, c) }

func (e Each) String() string {
	if e == EachGPU {
		return "gpu"
	}
	return strconv.Itoa(int(e))
}

// MarshalJSON writes a number, or "gpu".
func (e Each) MarshalJSON() ([]byte, error) {
	if e == EachGPU {
		return []byte(`"gpu"`), nil
	}
	return []byte(e.String()), nil
}

// UnmarshalText reads a whole number from 1, or gpu.
func (e *Each) UnmarshalText(b []byte) error {
	if string(b) == "gpu" {
		*e = EachGPU
		return nil
	}
	n, err := strconv.ParseUint(string(b), 10, 16)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is not a number of processes; write a whole number from 1, or gpu", b)
	}
	*e = Each(n)
	return nil
}

// UnmarshalJSON takes a number or "gpu".
func (e *Each) UnmarshalJSON(b []byte) error { return unmarshalScalarJSON(b, e) }

// quantityText restricts the input of the Kubernetes parser, which needs minutes and gigabytes for exponents of a million.
var quantityText = regexp.MustCompile(`^\+?[0-9.]{1,32}([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?$`)

// ParseQuantity reads a Kubernetes quantity that is not negative.
func ParseQuantity(s string) (resource.Quantity, bool) {
	if !quantityText.MatchString(s) {
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(s)
	return q, err == nil
}

// UnmarshalText reads a number of cores or a Kubernetes quantity such as 500m.
func (c *CPUs) UnmarshalText(b []byte) error {
	q, ok := ParseQuantity(string(b))
	if !ok {
		return fmt.Errorf("%q is not a number of CPUs; write it like 8, 0.5 or 500m", b)
	}
	*c = CPUs(q.AsApproximateFloat64())
	return nil
}

// UnmarshalJSON takes a number or a string.
func (c *CPUs) UnmarshalJSON(b []byte) error { return unmarshalScalarJSON(b, c) }

// unmarshalScalarJSON passes a JSON string's value, or any other scalar as written, to UnmarshalText.
func unmarshalScalarJSON(b []byte, to interface{ UnmarshalText([]byte) error }) error {
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		return to.UnmarshalText([]byte(s))
	}
	return to.UnmarshalText(b)
}
