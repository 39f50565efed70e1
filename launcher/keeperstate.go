package launcher

import "github.com/rayctl/rayctl/launcher/keeper"

// StatusOf is a keeper's state as a Status. The launcher adds what only it knows: owner, labels, where, created.
func StatusOf(st *keeper.State) Status {
	s := Status{
		Name: st.Name, Launcher: st.Launcher, Ours: true, SpecHash: st.SpecHash,
		Phase: Phase(st.Phase), Reason: Reason(st.Reason), Since: st.Since, Attempt: st.Attempt,
		Head: Head{
			Address: st.Head.Address, Dashboard: st.Head.Dashboard, ClientPort: st.Head.ClientPort,
			Session: st.Head.Session, NodeID: st.Head.NodeID, RayVersion: st.Head.RayVersion,
		},
		Deadlines: Deadlines(st.Deadlines), EndOnDisconnect: st.EndOnDisconnect,
	}
	for _, g := range st.Groups {
		s.Groups = append(s.Groups, GroupStatus(g))
	}
	for _, n := range st.Nodes {
		s.Nodes = append(s.Nodes, NodeStatus{Name: n.Name, Group: n.Group, State: n.State, Host: n.Host, NodeID: n.NodeID, Message: n.Message})
	}
	for _, e := range st.Timeline {
		s.Timeline = append(s.Timeline, Event{At: e.At, Attempt: e.Attempt, Kind: e.Event, To: e.To, Code: e.Code, Message: e.Message})
	}
	for _, a := range st.Attempts {
		s.Attempts = append(s.Attempts, Attempt(a))
	}
	if j := st.Job; j != nil {
		s.Job = &JobStatus{
			SubmissionID: j.SubmissionID, Entrypoint: j.Entrypoint, State: JobState(j.State), DriverNodeID: j.DriverNodeID, LogFile: j.LogFile,
			Start: j.StartTime, End: j.EndTime, ExitCode: j.ExitCode, Signal: j.Signal, Message: j.Message,
		}
	}
	if e := st.Exit; e != nil {
		s.Exit = &Exit{Origin: e.Origin, Cause: e.Cause, Code: e.Code, Signal: e.Signal, Message: e.Message, Retryable: e.Retryable}
	}
	return s
}
