//! The service of the tests does with an identity what its mode says, also after a restart.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use hapax_testkit::{Request, Upstream, UpstreamKind, start};

/// A service, asked without a gateway.
struct Ledger {
    upstream: Upstream,
    dir: tempfile::TempDir,
}

impl Ledger {
    fn new(kind: UpstreamKind) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Self { upstream: Upstream::start(dir.path(), kind), dir }
    }

    fn status(&self, request: &Request) -> u16 {
        let address = self.upstream.url().trim_start_matches("http://").parse().expect("address");
        start(address, request).answer().status
    }

    /// The status of an attempt under the one identity.
    fn attempt(&self, attempt: u64) -> u16 {
        self.status(&Request::payment("id").header("hapax-attempt", &attempt.to_string()))
    }

    fn close(&self, attempt: u64) -> u16 {
        self.status(&Request::new("POST", &format!("/close/id?attempt={attempt}")))
    }

    fn ask(&self) -> u16 {
        self.status(&Request::get("/effects/id"))
    }
}

#[test]
fn a_repeated_identity_gets_what_the_mode_says() {
    let twice = [
        (UpstreamKind::Plain, (201, 201, 2), (404, 404)),
        (UpstreamKind::Asked, (201, 201, 2), (404, 200)),
        (UpstreamKind::Closing, (201, 201, 2), (404, 200)),
        (UpstreamKind::Refusing, (201, 201, 2), (404, 200)),
        (UpstreamKind::Unique, (201, 409, 1), (404, 200)),
        (UpstreamKind::Collapsing, (201, 201, 1), (404, 200)),
    ];
    assert_eq!(twice.map(|(kind, ..)| kind), UpstreamKind::ALL);
    for (kind, (first, second, effects), (before, after)) in twice {
        let ledger = Ledger::new(kind);
        assert_eq!(ledger.ask(), before, "{kind:?}");
        assert_eq!((ledger.attempt(1), ledger.attempt(2)), (first, second), "{kind:?}");
        assert_eq!(ledger.ask(), after, "{kind:?}");
        assert_eq!(ledger.upstream.effects().len(), effects, "{kind:?}");
    }
}

#[test]
fn fences_hold_and_survive_a_restart() {
    let mut closing = Ledger::new(UpstreamKind::Closing);
    assert_eq!(closing.close(2), 404);
    let mut refusing = Ledger::new(UpstreamKind::Refusing);
    assert_eq!(refusing.attempt(3), 201);
    let mut unique = Ledger::new(UpstreamKind::Unique);
    assert_eq!(unique.attempt(1), 201);
    for _ in 0..2 {
        assert_eq!([1, 2].map(|nth| closing.attempt(nth)), [409, 409]);
        assert_eq!([1, 2].map(|nth| refusing.attempt(nth)), [412, 412]);
        assert_eq!(unique.attempt(2), 409);
        for ledger in [&mut closing, &mut refusing, &mut unique] {
            ledger.upstream.restart();
        }
    }
    assert_eq!((closing.attempt(3), closing.close(3)), (201, 200));
    let effects = [&closing, &refusing, &unique].map(|ledger| ledger.upstream.effects().len());
    assert_eq!(effects, [1, 1, 1]);
}

#[test]
fn a_line_that_was_not_finished_when_it_was_killed_was_never_written() {
    let mut ledger = Ledger::new(UpstreamKind::Unique);
    assert_eq!(ledger.attempt(1), 201);
    ledger.upstream.kill();
    for log in ["arrivals.jsonl", "effects.jsonl", "fences.jsonl"] {
        let path = ledger.dir.path().join(log);
        let mut text = std::fs::read(&path).expect("a log");
        text.extend_from_slice(b"{\"n\":2,\"key\":\"\\\"other");
        std::fs::write(&path, text).expect("a log");
    }
    ledger.upstream.restart();
    assert_eq!(ledger.attempt(2), 409);
    let arrivals = ledger.upstream.arrivals();
    assert_eq!(arrivals.iter().map(|arrival| arrival.n).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(ledger.upstream.effects().len(), 1);
}

#[test]
fn only_a_service_that_closes_enforces_deadlines() {
    let late = Request::payment("id").header("hapax-deadline", "2026-01-01T00:00:00Z");
    for kind in UpstreamKind::ALL {
        let expected = if kind == UpstreamKind::Closing { 409 } else { 201 };
        assert_eq!(Ledger::new(kind).status(&late), expected, "{kind:?}");
    }
}
