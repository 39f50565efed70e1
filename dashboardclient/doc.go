// Package dashboardclient is a client of the HTTP API that Ray's dashboard serves on the head node: jobs and their logs,
// runtime-environment packages, Ray Serve, and the state of the cluster. It works on any dashboard URL, without a launcher.
//
// # Versions
//
// It is tested against Ray 2.60.0, 2.40.0 and 2.9.3. It has fallbacks for features that an older dashboard lacks, or else returns an [UnsupportedError].
//
// # Retries
//
// Requests that can be repeated without harm are repeated by go-retryablehttp when the connection breaks or the server answers
// 429, 502, 503 or 504. [Client.SubmitJob] is made repeatable by a nonce in the job's metadata: see there.
//
// # Errors
//
// Every error reads as one sentence. Use [errors.Is] with [ErrUnauthorized], [ErrNotFound], [ErrConflict], [ErrUnreachable],
// [ErrUnsupported] and [ErrTooLarge], and [errors.As] with [*APIError] for the server's own message. No error contains the token.
package dashboardclient
