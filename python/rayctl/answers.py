"""What rayctl answers with "-o json". Made from the Go structs by "make docs".

Times are strings in RFC 3339 (UTC), durations are seconds. A key of a class whose name ends with "Always" is always there, others may be absent.
"""

from typing import Any, Dict, List, Optional, TypedDict


class Prepare(TypedDict):
    # empty: not submitted; an attempt on a cluster that is prepared needs none
    submissionId: str
    # exactly as it is submitted
    entrypoint: str
    state: str
    # of the node that it ran on
    driverNodeId: str
    startTime: Optional[str]
    endTime: Optional[str]
    # shell convention: 128+n for a signal
    exitCode: Optional[int]
    signal: Optional[int]
    message: str


class ExitAlways(TypedDict):
    # OriginDriver, OriginPrepare: Code is the program's own exit code; OriginRayctl: Code is one of the Code constants
    origin: str
    # one of Causes
    cause: str
    # what `rayctl run` exits with
    code: int
    # the signal that ended the driver or job.prepare
    signal: Optional[int]
    message: str
    # the same command may succeed if repeated
    retryable: bool


class Exit(ExitAlways, total=False):
    # user@host who asked for the end
    by: str


class Durations(TypedDict):
    # Installing is before everything else, where the launcher makes the Python environment.
    installing: float
    queued: float
    provisioning: float
    starting: float
    # Preparing is from the moment that the cluster is ready until the driver runs: submission, packages, runtime environment (pip), job.prepare.
    preparing: float
    driver: float
    # Ready is the life of a cluster without a job of its own.
    ready: float
    # Lost is between the loss of an attempt and the next one.
    lost: float
    # from the driver's end to that of the cluster
    draining: float
    total: float


class Usage(TypedDict):
    # the largest number at one time
    nodes: int
    gpus: float
    nodeSeconds: float
    # while the driver ran
    busyNodeSeconds: float
    # the rest
    wastedNodeSeconds: float
    gpuSeconds: float
    busyGpuSeconds: float
    wastedGpuSeconds: float
    # MeasuredGPUSeconds are the GPU-seconds that NVML or nvidia-smi has measured; MeasuredBusyGPUSeconds are those of them in which a kernel ran.
    measuredGpuSeconds: float
    measuredBusyGpuSeconds: float


class GPUUse(TypedDict):
    # of a pod its address
    node: str
    # GPUs
    count: int
    # GPU-seconds that were measured
    seconds: float
    # those of them in which a kernel ran
    busySeconds: float
    # why they are not measured
    message: str


class AllocationAlways(TypedDict):
    id: str
    # main, head, gang or elastic
    purpose: str
    # numbers of nodes
    groups: Optional[Dict[str, int]]
    # one of the Allocation constants
    state: str
    queued: Optional[str]
    granted: Optional[str]
    released: Optional[str]


class Allocation(AllocationAlways, total=False):
    # when the substrate expects to grant it, while it is queued
    expected: str
    # the substrate's name for what holds the nodes, such as job 12
    where: str
    # the substrate's reason to wait; why it was released
    message: str


class FormerAllocations(TypedDict):
    group: str
    # nodes that were granted
    count: int
    nodeSeconds: float
    # while the driver ran
    busyNodeSeconds: float
    # nodes at one time, those that are still listed among them
    most: int
    # when the last of them was released, for the keeper
    until: str


class AttemptAlways(TypedDict):
    attempt: int
    submissionId: str
    start: Optional[str]
    end: Optional[str]
    cause: str
    exitCode: Optional[int]
    message: str


class Attempt(AttemptAlways, total=False):
    # as Job.LogBegin
    logBegin: int
    # Figures are what the driver gave for the receipt, by name (keeper/rayctl_keeper/driver/figures.py).
    figures: Dict[str, float]


class SubmissionAlways(TypedDict):
    submissionId: str
    state: str
    entrypoint: str
    startTime: Optional[str]


class Submission(SubmissionAlways, total=False):
    # of one that is PENDING, in words
    waitsFor: str


class EndedSubmissions(TypedDict):
    count: int
    succeeded: int
    last: Submission


class EventAlways(TypedDict):
    at: str
    attempt: int
    # phase, job, prepare, environment, commit, restart, node, head, extend, scale, change, gpus, files or keeper
    event: str


class Event(EventAlways, total=False):
    to: str
    code: str
    message: str


class LogInfoAlways(TypedDict):
    # length of the driver's log as Ray wrote it
    bytes: int


class LogInfo(LogInfoAlways, total=False):
    # byte ranges [from, to) that could not be saved
    missing: List[List[int]]
    # where it is, if it is a file
    path: str


class ReceiptAlways(TypedDict):
    name: str
    launcher: str
    # rayctl changed functions inside `ray start`, see ray.fastStart
    fastStart: bool
    created: str
    ended: str
    exit: Exit
    durations: Durations
    usage: Usage
    timeline: Optional[List[Event]]
    log: LogInfo


class Receipt(ReceiptAlways, total=False):
    owner: str
    where: str
    submissionId: str
    # of the last attempt's job, as in status -o json
    state: str
    # of the user
    command: str
    # job.prepare, if it ran in the last attempt
    prepare: Prepare
    # the command ran on every node (job.launch)
    ranks: bool
    # where the driver left results
    outputDir: str
    specHash: str
    rayVersion: str
    # what was measured of them, by node
    gpus: List[GPUUse]
    # Allocations are what the substrate granted, the oldest first.
    allocations: List[Allocation]
    # FormerAllocations are the sums of nodes of elastic groups that ended long ago and are not listed any more.
    formerAllocations: List[FormerAllocations]
    attempts: List[Attempt]
    # EndedSubmissions are the jobs that were submitted to a cluster without a job of its own; nil: none.
    endedSubmissions: EndedSubmissions
    # Figures are those that the last attempt's driver gave, by name.
    figures: Dict[str, float]


class Reason(TypedDict, total=False):
    # the substrate's: Resources, ErrImagePull, WaitingForNodes; or the cause of an end
    code: str
    # one sentence
    message: str
    # next step for the user
    hint: str


class GroupAlways(TypedDict):
    name: str
    ready: int
    wanted: int
    # GPUs of one node of the group.
    gpus: float


class Group(GroupAlways, total=False):
    # Min and Max are the minimum and the maximum number of nodes of an elastic group; its Wanted counts those that exist or are requested.
    min: int
    max: int


class NodeAlways(TypedDict):
    # <group>-<i>
    name: str
    group: str
    # of its supervisor, where the keeper started it
    pid: int
    nodeId: str
    # one of the Node constants
    state: str
    host: str
    message: str


class Node(NodeAlways, total=False):
    # Allocation is the id of the one that holds the node.
    allocation: str
    # Joined and Left are when it was alive in Ray first and last.
    joined: str
    left: str


class HeadAlways(TypedDict):
    # of the GCS, host:port
    address: str
    # URL
    dashboard: str
    clientPort: int
    # changes when the head was restarted
    session: str
    nodeId: str
    rayVersion: str
    # Ray's token authentication is on
    token: bool
    # its file in the run directory; "": it is the token of the keeper's API, as on Kubernetes and in an earlier rayctl's clusters
    tokenFile: str
    # rayctl has changed functions inside `ray start`, see ray.fastStart
    fastStart: bool
    # job.prepare has succeeded on this cluster: the drivers of further attempts need no other
    prepared: bool


class Head(HeadAlways, total=False):
    # the session of a head that was being taken away (KubeRay): it may answer for a while, and is not used any more
    leaving: str


class JobAlways(TypedDict):
    submissionId: str
    # exactly as submitted
    entrypoint: str
    state: str
    driverNodeId: str
    driverPid: int
    startTime: Optional[str]
    endTime: Optional[str]
    # shell convention: 128+n for a signal
    exitCode: Optional[int]
    signal: Optional[int]
    message: str
    # name for Ray's /api/v0/logs, of job.prepare while that runs
    logFile: str


class Job(JobAlways, total=False):
    # what the driver reserves on one node, in words
    reserves: str
    # LogBegin is where in the attempt's saved log the driver's begins: before it is what job.prepare printed. AllPrepare: no driver has followed.
    logBegin: int
    # Missing is what the saved log of the attempt does not have so far, as Log.Missing: for a keeper that follows another one.
    missing: List[List[int]]
    # Prepare is job.prepare; nil: the job has none.
    prepare: Prepare
    # OutputDir is the driver's RAYCTL_OUTPUT_DIR. Of an ended run it is empty if nothing was written there, or if it went with the nodes.
    outputDir: str
    # WaitsForFetch: the end waits for a client that copies the output directory, which goes with the nodes.
    waitsForFetch: bool


class Deadlines(TypedDict):
    max: Optional[str]
    idle: Optional[str]
    total: Optional[str]
    # IdleGPU is known once the GPUs have done nothing for half of the time.
    idleGpu: Optional[str]


class EndAlways(TypedDict):
    # one of runstate.Causes
    cause: str


class End(EndAlways, total=False):
    message: str
    # no grace for the driver
    now: bool
    # repeating the run would end it the same way, whatever the cause
    final: bool
    # IfWaiting spares a cluster that has begun meanwhile.
    ifWaiting: bool


class ApplicationAlways(TypedDict):
    name: str
    status: str


class Application(ApplicationAlways, total=False):
    message: str
    # URL is where this machine reaches it: directly if the head is on this machine, else only while `rayctl port-forward` runs with the same local port. "": it answers no HTTP requests.
    url: str


class StatusAlways(TypedDict):
    name: str
    launcher: str
    # false: a Ray cluster that rayctl did not make
    ours: bool
    phase: str
    reason: Reason
    # of the phase
    since: str
    # of the cluster
    created: str
    # from 1
    attempt: int
    head: Head
    deadlines: Deadlines


class Status(StatusAlways, total=False):
    owner: str
    labels: Dict[str, str]
    # Uncommitted: its client has not finished the launch, so it runs nothing; if that client has died, it never will.
    uncommitted: bool
    # List only: another user's cluster, where a launcher lists those of several users
    theirs: bool
    specHash: str
    # namespace/name, Slurm job id, keeper's pid
    where: str
    groups: List[Group]
    nodes: List[Node]
    # GPUs are what was measured of them, by node, also of former ones.
    gpus: List[GPUUse]
    # Allocations are what was asked of the substrate, also former ones, the oldest first. Before a cluster has a keeper it may be empty.
    allocations: List[Allocation]
    # FormerAllocations are the sums of nodes of elastic groups that ended long ago and are not listed any more.
    formerAllocations: List[FormerAllocations]
    # Offers is how many submissions of jobs for nodes wait for a client (Submitter), because the cluster's own nodes may not submit jobs.
    offers: int
    # nil: a cluster without a job of its own
    job: Job
    # OutputDir is RAYCTL_OUTPUT_DIR of the drivers on such a cluster; empty after the end if nothing is left there.
    outputDir: str
    # Submissions are the jobs that run or wait on such a cluster.
    submissions: List[Submission]
    # EndedSubmissions are the number and the last of those that have ended; nil: none.
    endedSubmissions: EndedSubmissions
    # EndOnDisconnect is the time in seconds after which the keeper ends the cluster if no client renews; 0: never.
    endOnDisconnect: float
    timeline: List[Event]
    attempts: List[Attempt]
    # with phase Gone
    exit: Exit
    # set while the substrate does not answer: why
    unreachable: str
    # Due is an action for Terminate that nobody on the substrate takes: cancel a job that waits in vain, or write the result of a dead keeper. Run carries it out; if no client runs the cluster, the next launch, down or gc does.
    due: End
    applications: List[Application]


class SubmittedAlways(TypedDict):
    # Type is SUBMISSION for a job submitted through the job API, DRIVER for a program that called ray.init itself.
    type: str
    # Status is the job's state.
    status: str
    # Entrypoint is the shell command.
    entrypoint: str
    state: str


class Submitted(SubmittedAlways, total=False):
    # SubmissionID is empty for a DRIVER.
    submission_id: str
    # JobID is Ray core's id, set once the driver has connected.
    job_id: str
    # Message is Ray's explanation of the status.
    message: str
    # ErrorType names Ray's internal cause of a failure; empty if the driver failed by itself.
    error_type: str
    # StartTime is when the job was submitted.
    start_time: str
    # EndTime is zero before the job was terminal.
    end_time: str
    # Metadata is the metadata from the submission, and rayctl's own keys (rayctl.*).
    metadata: Dict[str, str]
    # RuntimeEnv is the runtime environment as submitted. Everybody with access to the job sees it.
    runtime_env: Dict[str, Any]
    # DriverNodeID is the node of the driver, set once RUNNING.
    driver_node_id: str
    # DriverExitCode is the exit code of the entrypoint's shell, negative for a signal; nil before the end, when Ray ended the job, and in Ray 2.9.3 for a job that succeeded.
    driver_exit_code: int
    submissionId: str
