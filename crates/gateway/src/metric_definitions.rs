//! Every metric of the gateway, in one place; what it shares with other doors is in
//! [`hapax::metric_definitions`]. Labels are bounded: operation names come from the
//! configuration, the other values from closed sets.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Requests by the `way` they took: `keyed`, `keyed_without_key` for one of a keyed operation that
/// carries none and so passed, `observed`, `refused` for a path that is
/// not quite a protected one and for what cannot be keyed (an upgrade, early data, gRPC), `passed`,
/// or `passed_with_key` for one whose key protects nothing, because it is on no route of a keyed
/// operation; `preflight` that was answered here, `document` below `/.well-known/idempotency`,
/// `unrouted` for a host and path of no service, `malformed` for what is no proper request.
pub const REQUESTS: &str = "hapax_requests_total";
/// The time to the head of an answer, by `way`.
pub const REQUEST_SECONDS: &str = "hapax_request_seconds";
/// Observe mode: arrivals by `operation`, by whether they were `keyed`, and by what enforcing
/// `would` have done: a word of `Would`, or `refuse_` and what it would have refused before the
/// claim.
pub const OBSERVED: &str = "hapax_observed_total";
/// Observe mode: arrivals that were not reported, by `reason`.
pub const UNOBSERVED: &str = "hapax_unobserved_total";
/// Failures to get an answer from a `service`, by whether the request was `sent`.
pub const UPSTREAM_FAILURES: &str = "hapax_upstream_failures_total";
/// Connections that are open now, tunnels included, by `listener`: `callers` or `operator`.
pub const CONNECTIONS: &str = "hapax_connections";
/// Connections that were turned into tunnels (`Upgrade`) and are open now.
pub const TUNNELS: &str = "hapax_tunnels";
/// TLS handshakes with callers and operators that did not come to an end, by `reason`.
pub const TLS_FAILURES: &str = "hapax_tls_handshake_failures_total";
/// Looks at changed certificate files, by `result`: `taken`, or `refused` where the old ones stay.
pub const TLS_RELOADS: &str = "hapax_tls_reloads_total";
/// The time until a certificate expires that we show, by `of`: `callers`, `operator`, or `services`
/// for the first of those that are shown to services. Negative when it is over.
pub const TLS_EXPIRY_SECONDS: &str = "hapax_tls_certificate_expiry_seconds";
/// Keyed requests whose owner is not known, by the `source` that was to tell it and the `reason`.
pub const SCOPE_REFUSED: &str = "hapax_scope_refused_total";
/// Keys that callers are known by, read or fetched again after the start, by their `source`
/// (`jwks_file`, `jwks_url`, `api_keys`) and the `result`, `ok` or `failed`. For `jwks_url` the
/// fetch at the start is counted too.
pub const SCOPE_KEYS_LOADED: &str = "hapax_scope_keys_loaded_total";
/// The age of the key set behind `jwks_url`, in seconds, as of the last time it was asked for: 0
/// while fetching succeeds.
pub const SCOPE_KEYS_AGE: &str = "hapax_scope_keys_age_seconds";
/// Questions whether a caller may see what an earlier attempt came to, by `operation` and `result`:
/// `allowed`, `forbidden` or `unavailable`.
pub const AUTHORIZATIONS: &str = "hapax_authorizations_total";
/// The time such a question took, its wait for others included, by `operation`.
pub const AUTHORIZATION_SECONDS: &str = "hapax_authorization_seconds";

/// Attempts to put another configuration in place, by `result`: `applied` or `refused`.
pub const RELOADS: &str = "hapax_config_reloads_total";
/// Requests that ran without a record while the store was not available, by `operation` and by what
/// they came to (`result`); `not_noted` for those that could not be noted on disk and did not run.
pub const UNPROTECTED: &str = "hapax_unprotected_total";
/// Requests that ran without a record and were not brought into the store yet.
pub const UNPROTECTED_PENDING: &str = "hapax_unprotected_pending";
/// Requests that ran without a record and were brought into the store since, by `result`: `beside`
/// for those whose key had a record, so that they may have happened twice.
pub const UNPROTECTED_BROUGHT_IN: &str = "hapax_unprotected_brought_in_total";

/// Describes every metric to the installed recorder.
pub fn describe() {
    describe_counter!(REQUESTS, "Requests by the way they took");
    describe_histogram!(REQUEST_SECONDS, Unit::Seconds, "Time to the head of an answer");
    describe_counter!(OBSERVED, "Observe mode: what enforcing would have done");
    describe_counter!(UNOBSERVED, "Observe mode: arrivals that were not reported");
    describe_counter!(RELOADS, "Configurations put in place, or refused");
    describe_counter!(UPSTREAM_FAILURES, "Requests without an answer from the service");
    describe_gauge!(CONNECTIONS, "Connections that are open");
    describe_gauge!(TUNNELS, "Upgraded connections that are open");
    describe_counter!(TLS_FAILURES, "TLS handshakes that came to no end");
    describe_counter!(TLS_RELOADS, "Changed certificate files that were looked at");
    describe_gauge!(TLS_EXPIRY_SECONDS, Unit::Seconds, "Time until a certificate expires");
    describe_counter!(UNPROTECTED, "Requests that ran without a record while the store was down");
    describe_gauge!(UNPROTECTED_PENDING, "Requests without a record that were not brought in yet");
    describe_counter!(UNPROTECTED_BROUGHT_IN, "Requests without a record that were brought in");
    describe_counter!(SCOPE_REFUSED, "Keyed requests whose owner is not known");
    describe_counter!(SCOPE_KEYS_LOADED, "Keys that callers are known by, read again");
    describe_gauge!(SCOPE_KEYS_AGE, Unit::Seconds, "Age of the key set behind jwks_url");
    describe_counter!(AUTHORIZATIONS, "Questions whether a caller may see an earlier outcome");
    describe_histogram!(AUTHORIZATION_SECONDS, Unit::Seconds, "Time such a question took");
}
