package controller

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// textFormat is squeue's -o: all versions have it, their JSON cannot be asked for one user's jobs before 23.02. Each job begins with a record
// separator, as names and comments may have line breaks; separators cannot be typed into them by accident. What users write comes last.
const textFormat = recordSeparator + "%A\x1f%i\x1f%T\x1f%r\x1f%P\x1f%N\x1f%D\x1f%B\x1f%V\x1f%S\x1f%e\x1f%u\x1f%Z\x1f%j\x1f%k"

const (
	recordSeparator = "\x1e"
	unitSeparator   = "\x1f"
)

// parseText reads squeue's answer in textFormat, with times as SLURM_TIME_FORMAT=%s prints them.
func parseText(out string) ([]Job, error) {
	before, records, _ := strings.Cut(out, recordSeparator)
	if before = strings.TrimSpace(before); before != "" && !strings.HasPrefix(before, "CLUSTER: ") { // what --clusters puts before its jobs
		return nil, fmt.Errorf("squeue's answer %q does not have the fields asked for", before)
	}
	var jobs []Job
	for _, record := range strings.Split(records, recordSeparator) {
		f := strings.SplitN(strings.TrimSuffix(record, "\n"), unitSeparator, 15)
		id, err := strconv.Atoi(f[0])
		if len(f) != 15 || err != nil {
			continue // somebody wrote a separator into a comment
		}
		j := Job{ID: id, Reason: noneIsEmpty(f[3]), Partition: f[4], NodeList: f[5], BatchHost: naIsEmpty(f[7]), User: f[11], WorkDir: f[12], Name: f[13], Comment: naIsEmpty(f[14])}
		j.NodeCount, _ = strconv.Atoi(f[6]) // a range such as 1-4 while pending
		j.Submit, j.Start, j.End = textTime(f[8]), textTime(f[9]), textTime(f[10])
		if leader, offset, het := strings.Cut(f[1], "+"); het {
			j.HetJobID, _ = strconv.Atoi(leader)
			j.HetOffset, _ = strconv.Atoi(offset)
		}
		j.setState([]string{f[2]})
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func textTime(s string) time.Time {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil { // N/A
		return time.Time{}
	}
	return unix(n)
}
