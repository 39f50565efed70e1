package translate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher/spec"
)

// script is a shell script that is read statement by statement. Nothing of it is run.
type script struct {
	*request
	values       values
	byHand       map[string]bool // variables and functions with which the script starts Ray
	arrays       map[string]bool
	drivers      []driver
	ray          rayOptions
	slurm        bool // it is for Slurm
	mentionsGPUs bool
	setup        []string
	secrets      []string
}

// driver is a command that may be the job.
type driver struct {
	line   int
	stmt   *syntax.Stmt
	submit bool // by `ray job submit` or `ray symmetric-run`: there is no doubt
}

// maxScript bounds what the parser's stack may grow to: it calls itself for each parenthesis.
const maxScript = 64 << 10

// ofScript reads a batch script, or a file with a command line.
func ofScript(from Source, data []byte) (*draft, error) {
	source := from.Name
	if program := config.Interpreter(data); program != "" && !config.IsShell(program) {
		return nil, &spec.Error{File: source, Msg: "is a script of " + program + ", not of a shell", Hint: "`rayctl run -- COMMAND` runs it on a cluster"}
	}
	if len(data) > maxScript {
		return nil, &spec.Error{File: source, Msg: "is no manifest, and larger than 64 KiB, which no script that starts Ray is", Hint: other}
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(data), "")
	if err != nil {
		if isClusterFile(source, data) {
			return nil, notShell(source)
		}
		line, msg := 0, err.Error()
		var at syntax.ParseError
		if errors.As(err, &at) {
			line, msg = int(at.Pos.Line()), at.Text
		}
		return nil, &spec.Error{File: source, Line: line, Msg: "is no manifest, and no shell script either: " + oneLine(msg), Hint: other}
	}
	if !config.StartsRay(printed(file)) {
		if isClusterFile(source, data) {
			return nil, notShell(source)
		}
		return nil, &spec.Error{File: source, Msg: "does not start Ray: it has no `ray start`, `ray symmetric-run` or `ray job submit`", Hint: "`rayctl run -- COMMAND` runs a command on a Ray cluster, and `rayctl init` begins a new file"}
	}
	d := newDraft("a shell script", from)
	s := &script{request: &request{draft: d}, values: values{}, byHand: map[string]bool{}, arrays: map[string]bool{}}
	s.readOptions(string(data))
	for _, stmt := range file.Stmts {
		s.statement(stmt)
	}
	s.finish()
	if job := s.top.below("job"); s.elsewhere && s.top.has("job") && job.has("entrypoint") && !job.has("workingDir") && !job.has("cwd") {
		s.ask("relative paths of the job count from where you call rayctl, not from the cluster file: call it where the script was called, or set job.cwd")
	}
	return d, nil
}

// isClusterFile reports whether data is a map in YAML, as a cluster file is.
func isClusterFile(source string, data []byte) bool {
	doc, err := spec.Parse(bytes.NewReader(data), source)
	return err == nil && len(doc.Keys()) > 0
}

func notShell(source string) error {
	return &spec.Error{File: source, Msg: "is YAML, but neither a RayJob nor a RayCluster", Hint: "a cluster file is used as it is, with -f; " + other}
}

func (s *script) readOptions(text string) {
	options, after := sbatchOptions(text)
	s.mentionsGPUs = mentionsGPUs.MatchString(text)
	for _, o := range options {
		s.take(o)
		if o.value == "hetjob" || o.value == "packjob" {
			break // the first component
		}
	}
	for _, line := range after {
		s.leave("line %d: #SBATCH after the first command, where sbatch does not read it", line)
	}
	if s.slurm = len(options) > 0; s.slurm {
		s.kind = "a batch script of Slurm"
	}
	for name, n := range map[string]int{
		"SLURM_JOB_NUM_NODES": s.nodes, "SLURM_NNODES": s.nodes, "SLURM_CPUS_PER_TASK": s.cpusPerTask, "SLURM_GPUS_PER_NODE": s.gpus, "SLURM_GPUS_ON_NODE": s.gpus,
		"SLURM_NTASKS_PER_NODE": s.perNode,
	} {
		if n > 0 {
			s.values[name] = strconv.Itoa(n)
		}
	}
}

var mentionsGPUs = regexp.MustCompile(`(?i)gpu|cuda`)

// startsRay matches what only serves to start Ray by hand: Ray's own commands, and what finds the nodes and waits for them.
var startsRay = regexp.MustCompile(`\bray["']?\s+(start|stop|status|health-check|up|symmetric-run)\b|\bscontrol\b|SLURM_(JOB_|STEP_)?NODELIST|\bhostname\b|\bip_head\b|\bray\.(init|nodes|cluster_resources)\(`)

// quiet are commands without effect on a cluster: they print, wait, or set the shell up.
var quiet = strings.Fields("echo printf date set shopt sleep wait trap exit return true false : pwd hostname nvidia-smi rocm-smi env printenv which type command sinfo squeue scontrol sacct cat head ls df free lscpu local read kill break continue test [ [[")

func (s *script) statement(st *syntax.Stmt) {
	switch c := st.Cmd.(type) {
	case *syntax.CallExpr:
		s.call(st, c)
	case *syntax.DeclClause:
		for _, a := range c.Args {
			s.assign(st, a, c.Variant.Value == "export" || c.Variant.Value == "declare" && strings.Contains(printed(st), " -x"))
		}
	case *syntax.FuncDecl:
		if body, is := c.Body.Cmd.(*syntax.Block); is && c.Name.Value == "main" { // which a script calls in its last line
			s.byHand["main"] = true
			for _, inner := range body.Stmts {
				s.statement(inner)
			}
			return
		}
		if s.isByHand(st) {
			s.byHand[c.Name.Value] = true
		}
		s.scan(st)
	case *syntax.Block:
		for _, inner := range c.Stmts {
			s.statement(inner)
		}
	case *syntax.BinaryCmd:
		s.binary(st, c)
	default:
		s.compound(st)
	}
}

// binary is a && b, a || b or a | b.
func (s *script) binary(st *syntax.Stmt, c *syntax.BinaryCmd) {
	switch {
	case c.Op == syntax.AndStmt:
		s.statement(c.X)
		s.statement(c.Y)
	case c.Op == syntax.OrStmt && (s.onlyQuiet(c.Y) || s.isByHand(c.X)):
		s.statement(c.X)
	case c.Op == syntax.Pipe || c.Op == syntax.PipeAll:
		first := c.X
		for {
			inner, piped := first.Cmd.(*syntax.BinaryCmd)
			if !piped {
				break
			}
			first = inner.X
		}
		if call, is := first.Cmd.(*syntax.CallExpr); is && s.isDriver(call, st) {
			s.unwrap(call)
			s.drivers = append(s.drivers, driver{line: lineOf(st), stmt: st})
			return
		}
		s.compound(st)
	default:
		s.compound(st)
	}
}

func lineOf(n syntax.Node) int { return int(n.Pos().Line()) }

// compound is a statement that is not taken apart: a loop, a condition, a subshell.
func (s *script) compound(st *syntax.Stmt) {
	if s.isByHand(st) || s.onlyQuiet(st) {
		s.scan(st)
		s.taint(st)
		s.inCondition(st)
		return
	}
	s.leaveStmt(st, "rayctl does not take loops, conditions and pipelines apart: set job.prepare or setup if the job needs it")
}

// inCondition finds the driver in a script whose first node starts it and Ray's head: if [ $SLURM_PROCID = 0 ].
func (s *script) inCondition(st *syntax.Stmt) {
	if _, is := st.Cmd.(*syntax.IfClause); !is {
		return
	}
	syntax.Walk(st, func(n syntax.Node) bool {
		inner, is := n.(*syntax.Stmt)
		if !is {
			_, command := n.(*syntax.CmdSubst)
			return !command
		}
		call, is := inner.Cmd.(*syntax.CallExpr)
		if !is {
			_, condition := inner.Cmd.(*syntax.IfClause)
			_, block := inner.Cmd.(*syntax.Block)
			return condition || block
		}
		if !s.isDriver(call, inner) {
			return false
		}
		s.unwrap(call)
		s.drivers = append(s.drivers, driver{line: lineOf(inner), stmt: inner})
		s.ask("line %d: %s is inside a condition of the script", lineOf(inner), shown(inner))
		return false
	})
}

func shortened(text string) string {
	if runes := []rune(oneLine(text)); len(runes) > 70 {
		return string(runes[:67]) + "..."
	}
	return oneLine(text)
}

// writes reports whether a statement makes a file.
func writes(st *syntax.Stmt) bool {
	return slices.ContainsFunc(st.Redirs, func(r *syntax.Redirect) bool {
		out := slices.Contains([]syntax.RedirOperator{syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll}, r.Op)
		return out && !strings.HasPrefix(r.Word.Lit(), "/dev/")
	})
}

// onlyQuiet reports whether all commands below a statement only print and wait, or set variables that only start Ray.
func (s *script) onlyQuiet(st *syntax.Stmt) bool {
	only := true
	syntax.Walk(st, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			only = only && !writes(n)
		case *syntax.CallExpr:
			only = only && (len(n.Args) == 0 || slices.Contains(quiet, n.Args[0].Lit()))
		case *syntax.DeclClause:
			only = only && n.Variant.Value != "export"
		}
		return only
	})
	return only
}

// taint notes that what a statement sets is for starting Ray.
func (s *script) taint(st *syntax.Stmt) {
	syntax.Walk(st, func(n syntax.Node) bool {
		if a, is := n.(*syntax.Assign); is && a.Name != nil {
			s.byHand[a.Name.Value] = true
			delete(s.values, a.Name.Value)
		}
		return true
	})
}

// isByHand reports whether a statement only serves to start Ray.
func (s *script) isByHand(n syntax.Node) bool {
	if startsRay.MatchString(printed(n)) {
		return true
	}
	if slices.ContainsFunc(variables(n), func(name string) bool { return s.byHand[name] }) {
		return true
	}
	calls := false
	syntax.Walk(n, func(n syntax.Node) bool {
		if c, is := n.(*syntax.CallExpr); is && len(c.Args) > 0 {
			calls = calls || s.byHand[c.Args[0].Lit()]
		}
		return true
	})
	return calls
}

// scan reads the options of `ray start`, and the containers, of commands that are not taken over.
func (s *script) scan(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if c, is := n.(*syntax.CallExpr); is && len(c.Args) > 0 {
			s.rayStart(s.unwrapped(c.Args))
		}
		return true
	})
}

// assign is NAME=VALUE, exported or not.
func (s *script) assign(st *syntax.Stmt, a *syntax.Assign, exported bool) {
	if a.Name == nil {
		return // an option of export or declare
	}
	name := a.Name.Value
	value, ok := s.values.known(a.Value)
	switch {
	case a.Naked:
		value, ok = s.values[name]
	case a.Array != nil || a.Index != nil:
		s.arrays[name], ok = true, false
	case a.Append && ok:
		value, ok = s.values[name]+value, !s.byHand[name]
	}
	byHand := s.byHand[name] && a.Naked || !a.Naked && s.isByHand(a) || name == "RAY_ADDRESS"
	if ok && !byHand {
		s.values[name] = value
		delete(s.byHand, name)
	} else {
		delete(s.values, name)
		s.byHand[name] = s.byHand[name] || byHand
	}
	switch {
	case !exported || byHand:
	case isSecret(name, value):
		delete(s.values, name) // in no entrypoint either
		s.secretAt(lineOf(st), name)
	case ok:
		s.top.below("env").set(name, value, "")
	case !a.Naked && s.forSetup(a):
		s.setup = append(s.setup, "export "+s.text(a))
	case a.Naked:
		s.leave("line %d: export %s: the script does not set it: slurm.keepEnv takes it from your login environment", lineOf(st), name)
	default:
		s.leaveStmt(st, "only a run of the script knows the value: set env."+name+", or export it in setup")
	}
}

// secretAt is a secret in a line.
func (s *script) secretAt(line int, name string) {
	s.secrets = appendNew(s.secrets, name)
	s.secret(name, fmt.Sprintf("line %d: ", line))
}

// nodeVariables are set on every node.
var nodeVariables = []string{"HOME", "USER", "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "LIBRARY_PATH", "CPATH", "CONDA_PREFIX", "VIRTUAL_ENV", "SLURM_JOB_ID"}

// forSetup reports whether a node can evaluate something itself.
func (s *script) forSetup(n syntax.Node) bool {
	ok := true
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			ok = false
		case *syntax.ParamExp:
			_, known := s.values[nameOf(n)]
			ok = ok && (known || s.inEnv(nameOf(n)) || slices.Contains(nodeVariables, nameOf(n)))
		}
		return ok
	})
	return ok
}

// inEnv reports whether a variable is in the cluster's environment.
func (s *script) inEnv(name string) bool {
	if !s.top.has("env") {
		return false
	}
	return s.top.below("env").has(name)
}

// text is a node as shell text, with the values of the script's own variables.
func (s *script) text(n syntax.Node) string {
	s.values.replace(n)
	if a, is := n.(*syntax.Assign); is {
		n = &syntax.CallExpr{Assigns: []*syntax.Assign{a}}
	}
	return printed(n)
}

// leaveStmt notes a statement that the file does not have.
func (s *script) leaveStmt(st *syntax.Stmt, why string) {
	s.leave("line %d: %s: %s", lineOf(st), shown(st), why)
}

// shown is the beginning of a statement for a message.
func shown(st *syntax.Stmt) string {
	text := printed(st)
	if secretText.MatchString(text) {
		return "a command that may have a secret in it"
	}
	return shortened(text)
}

var secretText = regexp.MustCompile(`(?i)(token|secret|passw|api[-_]?key|credential|bearer|://[^/\s]*:[^/\s]*@)`)

// isSecret reports whether the value of a variable must not be copied.
func isSecret(name, value string) bool {
	return config.NamesSecret(name) || urlPassword.MatchString(value)
}

// urlPassword matches a URL with a password in it.
var urlPassword = regexp.MustCompile(`://[^/\s]*:[^/\s]*@`)

// commandSecret matches an argument that may be a secret.
var commandSecret = regexp.MustCompile(`(?i)(api[-_]?key|passw(or)?d|secret|auth[-_]token)[ =]|\b(hf_|sk-)[A-Za-z0-9]{16,}|://[^/\s]*:[^/\s]*@`)

// call is a simple command.
func (s *script) call(st *syntax.Stmt, c *syntax.CallExpr) {
	if len(c.Args) == 0 {
		for _, a := range c.Assigns {
			s.assign(st, a, false)
		}
		return
	}
	words := s.unwrapped(c.Args)
	if len(words) == 0 {
		s.leaveStmt(st, "it names no command")
		return
	}
	name := s.nameOfCommand(words)
	ray := s.rayVerb(words)
	switch {
	case ray == "start":
		s.rayStart(words)
	case ray == "job submit":
		s.submit(st, c, words)
	case ray == "symmetric-run":
		s.symmetric(st, c, words)
	case ray != "" || s.byHand[name]:
	case slices.Contains(quiet, name) && !writes(st):
	case s.environment(st, c, name, words):
	case s.isDriver(c, st):
		s.unwrap(c)
		s.drivers = append(s.drivers, driver{line: lineOf(st), stmt: st})
	case s.isByHand(st):
	default:
		why := "rayctl does not know whether the job needs it: job.prepare runs a command before the driver, setup one on each node"
		if name == "docker" || name == "podman" {
			why = "slurm.containerRuntime and image run the nodes in containers"
		}
		s.leaveStmt(st, why)
	}
}

func (s *script) nameOfCommand(words []*syntax.Word) string {
	if len(words) == 0 {
		return ""
	}
	text, _ := s.values.known(words[0])
	if text == "." || text == "" {
		return text
	}
	return path.Base(text)
}

// rayVerb is the verb of Ray's command line that words call; "" if they call another program.
func (s *script) rayVerb(words []*syntax.Word) string {
	if s.nameOfCommand(words) != "ray" || len(words) < 2 {
		return ""
	}
	verb, _ := s.values.known(words[1])
	if verb == "job" && len(words) > 2 {
		more, _ := s.values.known(words[2])
		verb += " " + more
	}
	return verb
}

// environment takes commands that set up the environment of all that follows.
func (s *script) environment(st *syntax.Stmt, c *syntax.CallExpr, name string, words []*syntax.Word) bool {
	var args []string
	allKnown := true
	for _, w := range words[1:] {
		text, ok := s.values.known(w)
		allKnown = allKnown && ok
		args = append(args, text)
	}
	switch {
	case name == "module" && allKnown && len(args) > 1 && (args[0] == "load" || args[0] == "add"):
		s.modules(args[1:])
	case name == "ml" && allKnown && len(args) > 0 && !strings.HasPrefix(args[0], "-"):
		s.modules(slices.DeleteFunc(args, func(a string) bool { return a == "load" }))
	case name == "module" || name == "ml":
		s.leaveStmt(st, "the cluster's job starts with a clean environment, to which slurm.modules adds")
	case (name == "source" || name == ".") && allKnown && len(args) == 1 && strings.HasPrefix(args[0], "/") && strings.HasSuffix(args[0], "/bin/activate"):
		s.top.below("ray").set("python", strings.TrimSuffix(args[0], "/bin/activate"), "the virtual environment that has Ray")
	case slices.Contains([]string{"source", ".", "conda", "mamba", "micromamba", "ulimit", "unset"}, name) && s.forSetup(c), name == "eval" && strings.Contains(printed(c), "conda"):
		s.setup = append(s.setup, s.text(c))
	case name == "cd" && len(args) == 1 && allKnown && strings.HasPrefix(args[0], "/"):
		s.top.below("job").set("cwd", args[0], "")
	case name == "cd" && strings.Contains(printed(c), "SLURM_SUBMIT_DIR"): // job.cwd is the current directory
	case name == "cd":
		s.leaveStmt(st, "job.cwd is an absolute path; by default the driver starts in the directory in which you call rayctl")
	case name == "pip" || name == "pip3" || name == "uv" && len(args) > 0 && args[0] != "run":
		s.leaveStmt(st, "job.pip or job.uv install packages for the job, setup runs a command on each node")
	default:
		return false
	}
	return true
}

func (s *script) modules(names []string) {
	for _, name := range names {
		s.top.below("slurm").add("modules", name)
	}
}

// programs begin a command that does the work.
var programs = regexp.MustCompile(`^(python[0-9.]*|uv|poetry|pipenv|torchrun|accelerate|deepspeed|bash|sh|time|numactl|nohup|exec|rllib|tune|serve|vllm)$`)

// isDriver reports whether a command may be the job.
func (s *script) isDriver(c *syntax.CallExpr, st *syntax.Stmt) bool {
	words := s.unwrapped(c.Args)
	if len(words) == 0 {
		return false
	}
	text, _ := s.values.known(words[0])
	if given := shellText(words); given != nil && (s.isByHand(given) || config.StartsRay(printed(given))) {
		return false
	}
	return (programs.MatchString(path.Base(text)) || strings.Contains(text, "/")) && !config.StartsRay(printed(c)) && !startsOnly.MatchString(printed(st))
}

// startsOnly is startsRay without what a driver may have in its arguments.
var startsOnly = regexp.MustCompile(`\bray["']?\s+(start|stop|status|health-check)\b|\bscontrol\b|\bray\.(nodes|cluster_resources)\(`)

// shellText is the word that a shell gets after -c; nil if words call no shell.
func shellText(words []*syntax.Word) *syntax.Word {
	if !config.IsShell(path.Base(words[0].Lit())) {
		return nil
	}
	for i, w := range words[1:] {
		if option := w.Lit(); strings.HasPrefix(option, "-") && !strings.HasPrefix(option, "--") && strings.HasSuffix(option, "c") && i+2 < len(words) {
			return words[i+2]
		}
	}
	return nil
}

// unwrap leaves of a command what srun and the like run.
func (s *script) unwrap(c *syntax.CallExpr) { c.Args = s.unwrapped(c.Args) }

// entrypoint chooses the job.
func (s *script) entrypoint() {
	s.drivers = slices.DeleteFunc(s.drivers, func(d driver) bool {
		call, is := d.stmt.Cmd.(*syntax.CallExpr)
		if !is || len(call.Args) == 0 {
			return false
		}
		given := shellText(call.Args)
		if given == nil {
			return false
		}
		names := variables(given)
		only := len(names) == 1 && !strings.ContainsAny(strings.Trim(printed(given), `"${}`), " ;") && s.values[names[0]] == ""
		if only {
			s.leave("line %d: %s: the command is in the variable %s, which the script does not set", d.line, shown(d.stmt), names[0])
		}
		return only
	})
	if len(s.drivers) == 0 {
		s.leave("the script has no command that can be taken for the driver: set job.entrypoint, or give it as in `rayctl run -- python train.py`")
		return
	}
	chosen := len(s.drivers) - 1
	for i, d := range s.drivers {
		if d.submit {
			chosen = i
		}
	}
	for i, d := range s.drivers {
		if i != chosen {
			s.leaveStmt(d.stmt, fmt.Sprintf("the command in line %d is the job; job.prepare runs a command before the driver", s.drivers[chosen].line))
		}
	}
	s.takeDriver(s.drivers[chosen])
}

func (s *script) takeDriver(d driver) {
	stmt := *d.stmt
	stmt.Background, stmt.Comments = false, nil
	if call, is := stmt.Cmd.(*syntax.CallExpr); is {
		call.Assigns = slices.DeleteFunc(call.Assigns, func(a *syntax.Assign) bool {
			if a.Name == nil || !isSecret(a.Name.Value, printed(a)) {
				return false
			}
			s.secretAt(d.line, a.Name.Value)
			return true
		})
	}
	replaced, others := s.values.replace(&stmt)
	replaced = slices.DeleteFunc(replaced, func(name string) bool { return !strings.HasPrefix(name, "SLURM_") })
	if len(replaced) > 0 {
		s.ask("line %d: the values of %s are those of the #SBATCH lines", d.line, strings.Join(replaced, ", "))
	}
	for _, name := range others {
		switch {
		case strings.ContainsAny(name, "@*#123456789") && len(name) == 1:
			s.ask("line %d: the job uses arguments of the script ($%s): write them into job.entrypoint", d.line, name)
		case s.inEnv(name) || slices.Contains(s.secrets, name) || slices.Contains(nodeVariables, name) || name == "PWD" || name == "TMPDIR":
		case s.byHand[name]:
			s.ask("line %d: the job uses %s, which is about Ray's head: a driver has RAY_ADDRESS, and needs no address", d.line, name)
		case s.arrays[name]:
			s.ask("line %d: the job uses %s, which is a list of the script: write its words into job.entrypoint", d.line, name)
		default:
			s.ask("line %d: the job uses the variable %s, which it does not have: set it in job.env", d.line, name)
		}
	}
	text := printed(&stmt)
	if _, piped := stmt.Cmd.(*syntax.BinaryCmd); piped {
		s.ask("line %d: the exit code of a pipeline is that of its last command: without it, `rayctl logs` has the output all the same", d.line)
	}
	if commandSecret.MatchString(text) {
		s.ask("line %d: the job's command may have a secret in it, which Ray shows: secrets gives the job variables that Ray does not show", d.line)
	}
	s.top.below("job").set("entrypoint", text, "")
}

// finish puts together what the statements had.
func (s *script) finish() {
	s.entrypoint()
	switch {
	case s.slurm:
		s.onSlurm()
	case s.ray.started:
		s.leave("where the cluster runs: without a slurm: or kuberay: section it runs on this machine; add workers:")
		s.ray.leave(s.draft)
		for _, name := range takenRayOptions { // without a group to set them at
			if value := cmp.Or(s.ray.head[name], s.ray.workers[name]); value != "" {
				s.leave("ray start --%s=%s: set it at head or workers", name, value)
			}
		}
	default:
		s.leave("where the job runs: add workers:, and slurm: or kuberay: for a cluster of its own; `rayctl submit` gives it to a cluster that runs already")
	}
	if len(s.setup) > 0 {
		s.top.set("setup", strings.Join(s.setup, "\n"), "on every node before Ray starts")
	}
}

// onSlurm adds the group of workers, and says where it runs.
func (s *script) onSlurm() {
	s.launcher = "slurm"
	s.top.add("workers", s.withRay(s.group()))
	if s.gpus == 0 && s.mentionsGPUs && !s.ray.gpus() {
		s.ask("the #SBATCH lines ask for no GPUs, and what is given to sbatch on its command line is not in the script: set workers[].gpus")
	}
	if len(s.top.below("slurm").node.Content) == 0 {
		s.top.remove("slurm")
		s.top.set("launcher", "slurm", "")
	}
}
