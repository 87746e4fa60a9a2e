//! The `[limits]` table.

use std::time::Duration;

use super::{Fault, Place, section::Section};

/// What the gateway takes on at most, and how long it waits.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    /// The largest body of a keyed request, in bytes. Default: 1 MiB.
    pub request_body: usize,
    /// The largest body of a keyed request without its content codings, in bytes. Default:
    /// 8 MiB, and not more than `buffered_total`.
    pub decoded_body: usize,
    /// How long a keyed request's body may take to arrive whole. Default: 10 s.
    pub body_within: Duration,
    /// The bodies of all keyed requests under way together, in bytes. Default: 256 MiB.
    pub buffered_total: usize,
    /// How long connecting to a service may take. Default: 2 s.
    pub connect: Duration,
    /// How long a call of the store may take. Default: 2 s.
    pub store: Duration,
    /// How long new connections are still taken after a shutdown was asked for, while `/readyz` says
    /// that it is coming: the time a load balancer needs to notice. Default: 0 s.
    pub announce: Duration,
    /// How long requests under way may take after a shutdown was asked for. Default: 30 s.
    pub drain: Duration,
    /// How long a caller may take nothing of an answer, or send nothing of a body that is being read,
    /// until its connection is closed. Default: 60 s.
    pub stalled: Duration,
    /// How many callers may be connected at once. Default: 10,000.
    pub max_connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_body: 1 << 20,
            decoded_body: 8 << 20,
            body_within: Duration::from_secs(10),
            buffered_total: 256 << 20,
            connect: Duration::from_secs(2),
            store: Duration::from_secs(2),
            announce: Duration::ZERO,
            drain: Duration::from_secs(30),
            stalled: Duration::from_secs(60),
            max_connections: 10_000,
        }
    }
}

pub(super) fn read(mut section: Section<'_>) -> Limits {
    let mut limits = Limits::default();
    let sizes: [(&'static str, &mut usize, &str); 2] = [
        ("request_body", &mut limits.request_body, "1MiB"),
        ("buffered_total", &mut limits.buffered_total, "256MiB"),
    ];
    let mut largest_body: Option<Place> = None;
    for (key, limit, example) in sizes {
        if let Some(size) = section.take(key).and_then(|value| value.size(example)) {
            largest_body.get_or_insert(size.place);
            *limit = size.value;
        }
    }
    let decoded_body = section.take("decoded_body").and_then(|value| value.size("8MiB"));
    match &decoded_body {
        Some(size) => limits.decoded_body = size.value,
        None => limits.decoded_body = limits.decoded_body.min(limits.buffered_total),
    }
    let durations = [
        ("body_within", &mut limits.body_within, "10s"),
        ("connect", &mut limits.connect, "2s"),
        ("store", &mut limits.store, "2s"),
        ("stalled", &mut limits.stalled, "60s"),
    ];
    for (key, limit, example) in durations {
        if let Some(time) = section.take(key).and_then(|value| value.positive_duration(example)) {
            *limit = time.value;
        }
    }
    if let Some(announce) = section.take("announce").and_then(|value| value.duration("5s")) {
        limits.announce = announce.value;
    }
    if let Some(drain) = section.take("drain").and_then(|value| value.duration("30s")) {
        limits.drain = drain.value;
    }
    if let Some(most) = section.take("max_connections") {
        let most = most.whole_number(1, 1_000_000, "10000");
        limits.max_connections = most.map_or(limits.max_connections, |most| most.value);
    }
    if let Some(place) = largest_body.filter(|_| limits.request_body > limits.buffered_total) {
        let what =
            "one request body (request_body) may be larger than all together (buffered_total)";
        let help = "raise buffered_total or lower request_body";
        section.report().add(&place, Fault::new(what, help));
    }
    if let Some(size) = decoded_body.filter(|size| size.value > limits.buffered_total) {
        let what =
            "one decoded body (decoded_body) may be larger than all together (buffered_total)";
        let help = "raise buffered_total or lower decoded_body";
        section.report().add(&size.place, Fault::new(what, help));
    }
    section.finish();
    limits
}
