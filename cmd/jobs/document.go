package jobs

import "github.com/rayctl/rayctl/dashboardclient"

// Document is a job as -o json shows it: Ray's own record, and the same state and id under the keys of `rayctl status -o json`, so that a script can read all of them alike.
type Document struct {
	*dashboardclient.Job
	State dashboardclient.JobStatus `json:"state"`
	ID    string                    `json:"submissionId,omitempty"`
}

func documentOf(j *dashboardclient.Job) Document {
	return Document{j, j.Status, j.SubmissionID}
}

func documentsOf(jobs []dashboardclient.Job) []Document {
	all := make([]Document, len(jobs))
	for i := range jobs {
		all[i] = documentOf(&jobs[i])
	}
	return all
}
