package bed

const auditPolicyFile = "audit.yaml"

// auditPolicy keeps what service accounts ask of the API server: the users of tests are some, the testbed's own parts are none.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
`

// AuditLog is the API server's, one event of audit.k8s.io/v1 to a line.
func (b *Bed) AuditLog() string { return b.path("audit.log") }
