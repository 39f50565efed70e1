package units

import (
	"encoding/json"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	good := map[string]time.Duration{
		"0": 0, "0s": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "3d12h": 3*day + 12*time.Hour, "2w": 14 * day, "1.5h": 90 * time.Minute,
		"250ms": 250 * time.Millisecond, "1d": day, "1w2d3h4m5s": 9*day + 3*time.Hour + 4*time.Minute + 5*time.Second,
		"3-12:00:00": 3*day + 12*time.Hour, "3-12": 3*day + 12*time.Hour, "1-0:30": day + 30*time.Minute, "1:30:00": 90 * time.Minute, "90:00": 90 * time.Minute,
	}
	for text, want := range good {
		got, err := ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
		if back, err := ParseDuration(FormatDuration(got)); err != nil || back != got {
			t.Errorf("%q: written %q, read back %v, %v", text, FormatDuration(got), back, err)
		}
	}
	for _, text := range []string{"", " ", "90", "1x", "-5s", "1h 30m", "d", "s", "1:2:3:4", "1-", "-1:00", "1e9h", "٣s", "99999999999999d", "unlimited", "5mh", "1.5.5s", "1s\n"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q was taken as %v", text, got)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 3 * time.Second: "3s", 5 * time.Minute: "5m", 90 * time.Second: "1m30s", 12 * time.Hour: "12h", 7 * 24 * time.Hour: "7d", 84 * time.Hour: "3d12h",
		10 * time.Minute: "10m", 20 * time.Hour: "20h", time.Hour + 30*time.Second: "1h0m30s",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
}

func TestLimitAndCount(t *testing.T) {
	for text, want := range map[string]Limit{`"unlimited"`: NoLimit, `0`: NoLimit, `"0"`: NoLimit, `"0s"`: NoLimit, `"2h"`: Limit(2 * time.Hour)} {
		var l Limit
		if err := json.Unmarshal([]byte(text), &l); err != nil || l != want {
			t.Errorf("%s: %v, %v; want %v", text, l, err, want)
		}
	}
	if _, ok := NoLimit.Bound(); ok {
		t.Error("no limit has a bound")
	}
}

func TestCPUs(t *testing.T) {
	for text, want := range map[string]CPUs{"8": 8, "0.5": 0.5, "500m": 0.5, "1e1": 10, "0": 0} {
		var c CPUs
		if err := c.UnmarshalText([]byte(text)); err != nil || c != want {
			t.Errorf("%s: %v, %v", text, c, err)
		}
	}
	for _, text := range []string{"-1", "", "x", "8 cores", "NaN", "inf"} {
		var c CPUs
		if err := c.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken as %v", text, c)
		}
	}
}

func TestEach(t *testing.T) {
	for text, want := range map[string]Each{"1": 1, "16": 16, `"gpu"`: EachGPU} {
		var got Each
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
		if again, err := json.Marshal(got); err != nil || string(again) != text {
			t.Errorf("%s is written %s, %v", text, again, err)
		}
	}
	for _, text := range []string{"0", "-1", "1.5", `"all"`, "true", "100000"} {
		if err := json.Unmarshal([]byte(text), new(Each)); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}
