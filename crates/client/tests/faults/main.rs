//! Against a service that fails in every way: one effect for each intent, the right outcome, and no
//! more attempts and pauses than the policy has.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests"
)]

mod journal;
mod layers;
mod server;
mod spans;

use std::{
    num::NonZeroU32,
    time::{Duration, SystemTime},
};

use hapax_client::{
    AttemptTimeout, Backoff, Client, Done, HyperService, Outcome, Policy, ProblemKind, Refusal,
    Settings,
};
use http::Method;

use server::{Play, Server, answer, problem};

/// Pauses of parts of a second, so that tests are quick.
pub(crate) fn quick() -> Policy {
    let short = Duration::from_millis(20);
    Policy {
        backoff: Backoff { base: short, ..Backoff::default() },
        throttled_base: short,
        waiting: Backoff { base: short, cap: short, ..Backoff::default() },
        attempt_timeout: AttemptTimeout { floor: short, ceiling: Duration::from_millis(400) },
        deadline: Duration::from_secs(10),
        ..Policy::default()
    }
}

pub(crate) fn client(policy: Policy) -> Client<HyperService> {
    Client::with(Settings::new(policy), None).unwrap()
}

pub(crate) fn done(outcome: Outcome) -> Done {
    match outcome {
        Outcome::Done(done) => done,
        other => panic!("{other:?}"),
    }
}

/// All attempts were the same bytes with the same key.
fn assert_same(server: &Server, attempts: usize) {
    let arrivals = server.arrivals();
    assert_eq!(arrivals.len(), attempts, "{arrivals:?}");
    for arrival in &arrivals {
        assert_eq!(arrival.text, arrivals[0].text);
        assert_eq!(arrival.body(), "{\"amount\":1200}");
        let key = arrival.field("idempotency-key").unwrap();
        assert!(key.len() == 38 && key.starts_with('"') && key.ends_with('"'), "{key}");
    }
}

fn created() -> Play {
    Play::Answer(answer(201, "", "{\"id\":1}"))
}

fn replayed() -> Play {
    Play::Answer(answer(201, "Idempotent-Replayed: true\r\n", "{\"id\":1}"))
}

#[tokio::test]
async fn k7_what_may_be_lost_is_sent_again_with_the_same_key_and_bytes() {
    for fault in [
        Play::Reset,
        Play::Hang,
        Play::Cut(String::new()),
        Play::Cut("HTTP/1.1 201 Cre".to_owned()),
        Play::Cut("HTTP/1.1 201 Created\r\nContent-Length: 8\r\n\r\n{\"id\"".to_owned()),
        Play::Drip(answer(201, "", &"x".repeat(100))),
        Play::Answer(answer(502, "", "")),
        Play::Answer(answer(503, "", "")),
        Play::Answer(answer(504, "", "")),
    ] {
        let server = Server::playing([fault.clone(), replayed()]).await;
        let intent = server.post().build().unwrap();
        let done = done(client(quick()).send(intent).await.unwrap());
        assert!(done.replayed && done.sent == 2, "{fault:?}");
        assert_eq!(done.response.body(), "{\"id\":1}");
        assert_same(&server, 2);
    }
}

#[tokio::test]
async fn k7_attempts_have_an_end_and_what_is_left_open_is_unknown() {
    let server = Server::playing([Play::Reset, Play::Reset, Play::Reset, created()]).await;
    let intent = server.post().build().unwrap();
    let outcome = client(quick()).send(intent.clone()).await.unwrap();
    let Outcome::Unknown(operation) = outcome else { panic!("{outcome:?}") };
    assert_eq!(operation.sent, 3);
    assert_eq!(operation.intent.key(), intent.key());
    assert_same(&server, 3);
    // Later, with the same key.
    let done = done(client(quick()).find_out(operation).await.unwrap());
    assert_eq!(done.response.status(), 201);
    assert_same(&server, 4);
}

#[tokio::test]
async fn k7_what_is_not_repeatable_is_sent_once() {
    for fault in [Play::Reset, Play::Hang, Play::Answer(answer(503, "Retry-After: 1\r\n", ""))] {
        let server = Server::playing([fault, created()]).await;
        let intent = server.post().without_key().build().unwrap();
        let outcome = client(quick()).send(intent).await.unwrap();
        assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
        assert_eq!(server.arrivals().len(), 1);
        assert_eq!(server.arrivals()[0].field("idempotency-key"), None);
    }
}

#[tokio::test]
async fn a_get_and_a_put_need_no_key() {
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let server = Server::playing([Play::Reset, created()]).await;
        let intent = server.send(method.clone()).build().unwrap();
        assert!(intent.key().is_none());
        let done = done(client(quick()).send(intent).await.unwrap());
        assert_eq!((done.sent, server.arrivals().len()), (2, 2), "{method}");
    }
}

#[tokio::test]
async fn b7_too_many_requests_are_waited_for_as_long_as_they_say() {
    for (status, after) in [(429, "1"), (503, "1"), (429, "a date")] {
        // A date has whole seconds, so it may be up to one second sooner.
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(2));
        let after = if after == "a date" { &date } else { after };
        let first = answer(status, &format!("Retry-After: {after}\r\n"), "");
        let server = Server::playing([Play::Answer(first), created()]).await;
        let intent = server.post().build().unwrap();
        done(client(quick()).send(intent).await.unwrap());
        assert_same(&server, 2);
        let arrivals = server.arrivals();
        let pause = arrivals[1].at - arrivals[0].at;
        assert!(pause >= Duration::from_millis(950), "{status} {after}: {pause:?}");
        assert!(pause < Duration::from_secs(8), "{status} {after}: {pause:?}");
    }
}

#[tokio::test]
async fn p48_in_flight_is_progress_and_keeps_the_key() {
    let wait = Play::Answer(problem(409, "in-flight", "Hapax-Outcome: unknown\r\n"));
    let plays = [wait.clone(), wait.clone(), wait.clone(), wait.clone(), wait, replayed()];
    let server = Server::playing(plays).await;
    let done = done(client(quick()).send(server.post().build().unwrap()).await.unwrap());
    assert!(done.replayed, "five times under way, and three attempts are allowed");
    assert_same(&server, 6);
}

#[tokio::test]
async fn b7_an_unknown_outcome_is_asked_for_by_its_identity() {
    let link = "Link: </.well-known/idempotency/operations/0190-x?of=h>; rel=\"status\"\r\n";
    let status = |state: &str| {
        let content = format!("{{\"state\":\"{state}\",\"id\":\"0190-x\"}}");
        Play::Answer(answer(200, "Content-Type: application/json\r\n", &content))
    };
    let unknown = Play::Answer(problem(409, "outcome-unknown", link));
    let server =
        Server::playing([unknown, status("unknown"), status("succeeded"), replayed()]).await;
    let done = done(client(quick()).send(server.post().build().unwrap()).await.unwrap());
    assert!(done.replayed && done.sent == 2);
    let arrivals = server.arrivals();
    let lines: Vec<_> = arrivals.iter().map(|it| it.text.lines().next().unwrap()).collect();
    let asks = "GET /.well-known/idempotency/operations/0190-x?of=h HTTP/1.1";
    assert_eq!(lines, ["POST /payments HTTP/1.1", asks, asks, "POST /payments HTTP/1.1"]);
    let key = arrivals[0].field("idempotency-key");
    assert!(arrivals.iter().all(|arrival| arrival.field("idempotency-key") == key));
    assert_eq!(arrivals[0].text, arrivals[3].text);
}

#[tokio::test]
async fn b7_an_operation_is_found_out_about_by_its_effect_id() {
    let status = answer(200, "", "{\"state\":\"failed\"}");
    let server = Server::playing([Play::Answer(status), replayed()]).await;
    let operation = hapax_client::Operation::of(server.post().build().unwrap());
    let operation = operation.with_effect_id("0190-y");
    assert_eq!(operation.effect_id(), Some("0190-y"));
    done(client(quick()).find_out(operation).await.unwrap());
    let asked = &server.arrivals()[0];
    assert!(asked.text.starts_with("GET /.well-known/idempotency/operations/0190-y HTTP/1.1\r\n"));
}

#[tokio::test]
async fn a_held_outcome_is_unknown_with_what_was_observed() {
    let fields = "Hapax-Outcome: unknown\r\nRetry-After: 60\r\n";
    let server = Server::playing([Play::Answer(answer(500, fields, "broken"))]).await;
    let outcome = client(quick()).send(server.post().build().unwrap()).await.unwrap();
    let Outcome::Unknown(operation) = outcome else { panic!("{outcome:?}") };
    assert_eq!(operation.evidence.unwrap().body(), "broken");
    assert_same(&server, 1);
}

#[tokio::test]
async fn b7_a_refusal_is_terminal_and_says_which() {
    for (status, name, kind) in [
        (422, "key-reused", ProblemKind::KeyReused),
        (410, "key-expired", ProblemKind::KeyExpired),
        (409, "outcome-not-kept", ProblemKind::OutcomeNotKept),
        (400, "body-invalid", ProblemKind::BodyInvalid),
    ] {
        let server = Server::playing([Play::Answer(problem(status, name, ""))]).await;
        let outcome = client(quick()).send(server.post().build().unwrap()).await.unwrap();
        let Outcome::Refused(refused) = outcome else { panic!("{outcome:?}") };
        assert_eq!(refused.why, Refusal::Problem(kind));
        assert_same(&server, 1);
    }
}

#[tokio::test]
async fn what_nobody_listens_to_was_never_sent() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let policy = Policy { deadline: Duration::from_millis(300), ..quick() };
    for keyed in [true, false] {
        let builder = hapax_client::Intent::post(format!("http://{address}/x").parse().unwrap());
        let builder = if keyed { builder } else { builder.without_key() };
        let outcome = client(policy.clone()).send(builder.build().unwrap()).await.unwrap();
        let Outcome::Refused(refused) = outcome else { panic!("{outcome:?}") };
        assert!(matches!(refused.why, Refusal::NeverSent(_)), "{:?}", refused.why);
        assert!(refused.sent > 3, "connecting is free of attempts: {}", refused.sent);
    }
}

/// A service closes connections that are idle, and the request that finds one closed may be lost.
#[tokio::test]
async fn a_connection_that_the_service_closed_costs_a_resend_at_most() {
    let closing = |n: u32| Play::AnswerAndClose(answer(201, "", &n.to_string()));
    let server = Server::playing((0..40).map(closing)).await;
    let client = client(quick());
    for _ in 0..10 {
        done(client.send(server.post().build().unwrap()).await.unwrap());
    }
}

#[tokio::test]
async fn b6_a_key_that_is_about_to_end_is_not_sent_any_more() {
    let server = Server::playing((0..9).map(|_| Play::Reset)).await;
    let policy = Policy {
        key_lifetime: Some(Duration::from_millis(100)),
        attempts: NonZeroU32::new(100).unwrap(),
        backoff: Backoff { base: Duration::from_secs(4), ..Backoff::default() },
        ..quick()
    };
    let outcome = client(policy).send(server.post().build().unwrap()).await.unwrap();
    let Outcome::Unknown(operation) = outcome else { panic!("{outcome:?}") };
    assert!(server.arrivals().len() <= 2, "{}", server.arrivals().len());
    assert_eq!(operation.sent as usize, server.arrivals().len());
}

#[tokio::test]
async fn an_answer_beyond_the_limit_is_cut_and_stands() {
    let server = Server::playing([Play::Answer(answer(201, "", &"x".repeat(5_000)))]).await;
    let settings = Settings::new(quick()).longest_content(1_000);
    let client = Client::with(settings, None).unwrap();
    let done = done(client.send(server.post().build().unwrap()).await.unwrap());
    assert!(done.cut && done.response.body().len() == 1_000);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_not_followed() {
    let server = Server::playing([Play::Answer(answer(307, "Location: /else\r\n", ""))]).await;
    let done = done(client(quick()).send(server.post().build().unwrap()).await.unwrap());
    assert_eq!(done.response.status(), 307);
    assert_same(&server, 1);
}

#[tokio::test]
async fn callers_at_once_have_one_effect_each() {
    let server = Server::playing(
        (0..64)
            .flat_map(|n| if n % 2 == 0 { vec![Play::Reset] } else { vec![Play::ResetAtOnce] })
            .chain((0..200).map(|_| created())),
    )
    .await;
    let policy = Policy { attempts: NonZeroU32::new(50).unwrap(), ..quick() };
    let settings =
        Settings::new(policy).budgets(hapax_client::Budgets::new(hapax_client::Budget::unlimited));
    let client = Client::with(settings, None).unwrap();
    let mut sending = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let (client, intent) = (client.clone(), server.post().build().unwrap());
        sending.spawn(async move { done(client.send(intent).await.unwrap()).sent });
    }
    let sent = sending.join_all().await;
    assert_eq!(sent.len(), 32);
    let mut keys = server
        .arrivals()
        .iter()
        .map(|it| it.field("idempotency-key").unwrap().to_owned())
        .collect::<Vec<_>>();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 32, "one key for each intent");
}

/// Many quick questions say nothing of how long the few orders take.
#[tokio::test]
async fn what_is_quick_of_one_method_is_no_limit_of_another() {
    let ok = || Play::Answer(answer(200, "", ""));
    let order = Play::Slow(Duration::from_millis(200), answer(201, "", ""));
    let server = Server::playing((0..1_010).map(|_| ok()).chain([order])).await;
    let client = client(quick());
    for _ in 0..1_010 {
        done(client.send(server.send(Method::GET).build().unwrap()).await.unwrap());
    }
    let done = done(client.send(server.post().build().unwrap()).await.unwrap());
    assert_eq!(done.sent, 1);
}

#[tokio::test]
async fn what_has_no_key_and_may_have_been_sent_is_not_sent_to_find_out() {
    let server = Server::playing([Play::Reset, created(), created()]).await;
    let intent = server.post().without_key().build().unwrap();
    let outcome = client(quick()).send(intent).await.unwrap();
    let Outcome::Unknown(operation) = outcome else { panic!("{outcome:?}") };
    let outcome = client(quick()).find_out(operation).await.unwrap();
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    assert_eq!(server.arrivals().len(), 1);
    // That there is an outcome does not make it one that can be fetched.
    let server =
        Server::playing([Play::Answer(answer(200, "", "{\"state\":\"succeeded\"}")), created()])
            .await;
    let intent = server.post().without_key().build().unwrap();
    let operation = hapax_client::Operation::of(intent).with_effect_id("0190-y");
    let outcome = client(quick()).find_out(operation).await.unwrap();
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    assert_eq!(server.arrivals().len(), 1, "the question alone");
}

/// Where little of an answer is kept, what it says is read all the same.
#[tokio::test]
async fn a_problem_is_read_whole_however_little_is_kept() {
    let settings = || Settings::new(quick()).longest_content(4);
    let server = Server::playing([Play::Answer(problem(409, "in-flight", "")), replayed()]).await;
    let client = Client::with(settings(), None).unwrap();
    let done = done(client.send(server.post().build().unwrap()).await.unwrap());
    assert!(done.replayed && done.cut, "{done:?}");
    assert_eq!(done.response.body(), "{\"id");
    let server = Server::playing([Play::Answer(problem(422, "key-reused", ""))]).await;
    let outcome = client.send(server.post().build().unwrap()).await.unwrap();
    assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
}

/// What has no key is sent again only if it never left: on connections that are closed and reset under
/// the requests, none arrives twice.
#[tokio::test]
async fn k7_what_has_no_key_arrives_once_at_most_whatever_becomes_of_connections() {
    let play = |n: u32| match n % 5 {
        0 => Play::ResetAtOnce,
        1 => Play::Reset,
        2 => Play::Cut(String::new()),
        _ => Play::AnswerAndClose(answer(201, "", "")),
    };
    let server = Server::playing((0..2_000).map(play)).await;
    let client = client(quick());
    let mut sending = tokio::task::JoinSet::new();
    for caller in 0..8 {
        let (client, uri) = (client.clone(), format!("http://{}/payments", server.address));
        sending.spawn(async move {
            for nth in 0..50 {
                let intent = hapax_client::Intent::post(uri.parse().unwrap()).without_key();
                let intent = intent.body(format!("{caller}-{nth}")).build().unwrap();
                client.send(intent).await.unwrap();
            }
        });
    }
    sending.join_all().await;
    let arrivals = server.arrivals();
    let mut bodies: Vec<_> = arrivals.iter().map(server::Arrival::body).collect();
    bodies.sort_unstable();
    let count = bodies.len();
    bodies.dedup();
    assert_eq!(bodies.len(), count, "none twice");
    assert!(count > 200, "most arrive: {count}");
}
