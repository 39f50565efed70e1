package bed

const auditPolicyFile = "audit.yaml"

// auditPolicy logs requests of service accounts, which include the users of tests, but not the testbed's own parts.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
`

// AuditLog is the API server's audit log, one event of audit.k8s.io/v1 to a line.
func (b *Bed) AuditLog() string { return b.path("audit.log") }
