//! `hapax call`.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use hapax_testkit::{Client, Process, Ran, UpstreamKind, eventually, hapax, hapax_command};

use crate::{
    SOON,
    driver::{Driver, Payment},
    scene::{Scene, WAITING},
};

const CALL: Driver = Driver {
    client: Client::Hapax,
    script: "call.sh",
    honours_retry_after: true,
    retries_in_flight: true,
    // It has a deadline of a minute, and is told to come back in one.
    repeats_an_unknown_outcome: 0,
};

crate::cases::promises! { CALL,
    an_answer_lost_between_client_and_gateway_is_replayed
        as t06_an_answer_lost_between_hapax_call_and_gateway_is_replayed,
    a_request_cut_on_its_way_in_is_executed_once
        as a_request_of_hapax_call_that_is_cut_is_executed_once,
    an_answer_lost_behind_the_gateway_is_one_effect_under_resend
        as t06_an_answer_lost_behind_the_gateway_is_one_effect_for_hapax_call,
    what_is_refused_while_the_store_is_down_is_executed_once_when_it_is_back
        as p11_hapax_call_comes_back_when_the_store_is_back,
    a_retry_during_the_execution_starts_no_second_one
        as p48_hapax_call_waits_while_it_is_executed,
    a_retry_during_the_execution_waits_where_the_operation_says_so
        as hapax_call_waits_for_the_first_request_where_the_operation_says_so,
    an_unknown_outcome_is_told_and_nothing_is_sent_again
        as hapax_call_is_told_of_an_unknown_outcome,
    a_changed_intent_is_refused_and_not_sent_again
        as t02_hapax_call_does_not_repeat_a_changed_intent,
}

fn call(scene: &Scene, payment: &Payment, more: &[&str]) -> Ran {
    let (json, url) = (payment.json(), scene.url("/payments"));
    let arguments = ["call", "--silent", "--key", &payment.key, "--json", &json, &url];
    hapax(arguments.iter().chain(more))
}

#[test]
fn the_exit_code_says_what_became_of_it() {
    let scene = Scene::with(UpstreamKind::Plain, "");
    let payment = Payment::new();
    let first = call(&scene, &payment, &[]);
    assert_eq!(first.code, Some(0), "{first:?}");
    assert!(first.stdout.contains("pay_1"), "{first:?}");
    let again = call(&scene, &payment, &["--include"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.stdout.contains("idempotent-replayed: true"), "{again:?}");
    assert!(again.stdout.ends_with(&first.stdout), "{again:?}");

    let changed = call(&scene, &payment.changed(), &[]);
    assert_eq!(changed.code, Some(3), "{changed:?}");
    assert!(changed.stderr.contains("key-reused"), "{changed:?}");

    scene.upstream.script("payments", "status 402");
    let failed = call(&scene, &Payment::new(), &[]);
    assert_eq!(failed.code, Some(4), "{failed:?}");

    scene.upstream.script("payments", "status 500");
    let payment = Payment::new();
    let unknown = call(&scene, &payment, &["--retry-for", "2s"]);
    assert_eq!(unknown.code, Some(5), "{unknown:?}");
    assert!(unknown.stderr.contains(&format!("--key {}", payment.key)), "{unknown:?}");

    // Asked again, what may have been done is not called refused for want of a connection.
    let again = ["call", "--again", "--key", &payment.key, "-d", "x", "--retry-for", "300ms"];
    let unknown = hapax(again.iter().chain(&["http://127.0.0.1:1/"]));
    assert_eq!(unknown.code, Some(5), "{unknown:?}");

    let nowhere = hapax(["call", "--retry-for", "300ms", "--silent", "http://127.0.0.1:1/"]);
    assert_eq!(nowhere.code, Some(3), "{nowhere:?}");
    assert!(nowhere.stderr.contains("it was never sent"), "{nowhere:?}");
    for nonsense in [
        &["call"][..],
        &["call", "nowhere"],
        &["call", "-H", "no colon", "http://127.0.0.1:1/"],
        &["call", "-H", "Idempotency-Key: x", "http://127.0.0.1:1/"],
        &["call", "-d", "@/no/such/file", "http://127.0.0.1:1/"],
        &["call", "--key", "", "http://127.0.0.1:1/"],
        &["call", "--resume"],
        &["call", "--again", "-d", "x", "http://127.0.0.1:1/"],
        &["call", "ftp://127.0.0.1:1/"],
        &["call", "http://user:s3cret@127.0.0.1:1/"],
        &["call", "--bare-key", "--key", "a b", "http://127.0.0.1:1/"],
        &["call", "--output", "/no/such/folder/file", "http://127.0.0.1:1/"],
    ] {
        let ran = hapax(nonsense.iter());
        assert_eq!(ran.code, Some(2), "{nonsense:?}: {ran:?}");
        assert!(!ran.stderr.is_empty(), "{nonsense:?}");
        assert!(!ran.stderr.contains("s3cret"), "{ran:?}");
    }
}

/// Standard output is closed, and nobody could read what the service was seen to answer.
#[test]
fn that_an_outcome_is_unknown_is_told_whatever_can_be_written() {
    let scene = Scene::with(UpstreamKind::Plain, "");
    scene.upstream.script("payments", "status 500");
    let payment = Payment::new();
    let (json, url) = (payment.json(), scene.url("/payments"));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    let mut command = hapax_command();
    command.args(["call", "--key", &payment.key, "--retry-for", "2s", "--include"]);
    command.args(["--json", &json, &url]).stdin(Stdio::null()).stdout(full);
    let ran = command.output().expect("it runs");
    assert_eq!(ran.status.code(), Some(5), "{ran:?}");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains(&format!("--again --key {}", payment.key)), "{said}");
}

/// The answer was too long to be kept: it was done, and is not said to be refused.
#[test]
fn what_was_done_before_is_not_said_to_have_not_happened() {
    let scene = Scene::with(UpstreamKind::Plain, "response_cap = \"10B\"");
    let payment = Payment::new();
    assert_eq!(call(&scene, &payment, &[]).code, Some(0));
    let again = call(&scene, &payment, &[]);
    assert_eq!(again.code, Some(5), "{again:?}");
    assert!(again.stderr.contains("outcome-not-kept"), "{again:?}");
    scene.upstream.assert_effects(1);
}

/// The service may have forgotten the key, and would take it for a new one.
#[test]
fn b6_what_is_too_old_is_not_resumed() {
    let scene = Scene::holding();
    let journal = scene.dir().join("intents.db");
    let journal = journal.to_str().expect("a path");
    scene.upstream.script("payments", "status 500");
    let first = call(&scene, &Payment::new(), &["--journal", journal, "--retry-for", "1s"]);
    assert_eq!(first.code, Some(5), "{first:?}");
    let decided = || {
        let metrics = scene.gateway.operator("/metrics").text();
        let lines = metrics.lines().filter(|line| line.starts_with("hapax_decisions_total{"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let before = decided();
    assert!(!before.is_empty(), "the first call is there");
    let old = ["call", "--resume", "--journal", journal, "--key-lifetime", "1ms"];
    let resumed = hapax(old);
    assert_eq!(resumed.code, Some(5), "{resumed:?}");
    assert!(resumed.stderr.contains("forget"), "{resumed:?}");
    assert_eq!(decided(), before, "nothing came to the gateway");
}

/// Interrupted, it ends: what is left to be resumed is left.
#[test]
fn interrupted_it_resumes_nothing_more() {
    let scene = Scene::holding();
    let journal = scene.dir().join("intents.db");
    let journal = journal.to_str().expect("a path");
    let url = scene.url("/payments");
    for nth in 1..=2 {
        scene.upstream.script("payments", "gate answer");
        let payment = Payment::new();
        let json = payment.json();
        let mut command = hapax_command();
        command.args(["call", "--journal", journal, "--key", &payment.key, "--json", &json, &url]);
        let mut caller = Process::spawn("hapax call", command.stdin(Stdio::null()));
        scene.upstream.arrived(nth);
        caller.kill();
    }
    let mut command = hapax_command();
    let resume = ["call", "--resume", "--journal", journal, "--retry-for", "50s"];
    let mut caller = Process::spawn("hapax call", command.args(resume).stdin(Stdio::null()));
    let begun = || caller.stderr().iter().any(|line| line.contains("with the key"));
    eventually("it has begun", SOON, begun);
    caller.signal("INT");
    assert_eq!(caller.ended(SOON).code(), Some(5));
    let begun = caller.stderr().iter().filter(|line| line.contains("with the key")).count();
    assert_eq!(begun, 1, "{:?}", caller.stderr());
    scene.upstream.open("answer");
}

/// The caller is killed while its attempt is under way; whoever resumes has the same key.
#[test]
fn b1_a_caller_that_is_killed_is_resumed_with_the_same_key_and_one_effect() {
    let scene = Scene::of(UpstreamKind::Plain, "", WAITING);
    let journal = scene.dir().join("intents.db");
    let (journal, url) = (journal.to_str().expect("a path"), scene.url("/payments"));
    scene.upstream.script("payments", "gate answer");
    let credentials = "Authorization: Bearer s3cret";
    let mut command: Command = hapax_command();
    command.args([
        "call",
        "--journal",
        journal,
        "-H",
        credentials,
        "--json",
        "{\"amount\":1200}",
        &url,
    ]);
    let mut caller = Process::spawn("hapax call", command.stdin(Stdio::null()));
    scene.upstream.arrived(1);
    caller.kill();
    assert!(!std::fs::read(journal).expect("a journal").windows(6).any(|it| it == b"s3cret"));
    scene.upstream.open("answer");
    let resumed = hapax(["call", "--resume", "--journal", journal, "-H", credentials, "--silent"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert!(resumed.stdout.contains("pay_1"), "{resumed:?}");
    let arrival = scene.upstream.only_arrival();
    assert_eq!(arrival.attempt(), 1);
    scene.upstream.assert_effects(1);
    // There is nothing more to resume.
    let nothing = hapax(["call", "--resume", "--journal", journal]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(0), ""), "{nothing:?}");
    scene.upstream.assert_arrivals(1);
}

/// Before its first byte is out there is the journal, and before that nothing.
#[test]
fn b1_wherever_a_caller_is_killed_its_intent_has_one_effect() {
    let scene = Scene::of(UpstreamKind::Plain, "", WAITING);
    let url = scene.url("/payments");
    for nth in 0..12_u32 {
        let journal = scene.dir().join(format!("intents-{nth}.db"));
        let journal = journal.to_str().expect("a path");
        let payment = Payment::new();
        let json = payment.json();
        let arguments =
            ["call", "--journal", journal, "--key", &payment.key, "--json", &json, &url];
        let mut command = hapax_command();
        let mut caller = Process::spawn("hapax call", command.args(arguments).stdin(Stdio::null()));
        // Anywhere: before the journal, in it, on the way, behind the answer.
        std::thread::sleep(Duration::from_millis(u64::from(nth) * 4));
        caller.kill();
        let resumed = hapax(["call", "--resume", "--journal", journal, "--silent"]);
        assert_eq!(resumed.code, Some(0), "{resumed:?}");
        // Where it was killed before it had written its intent down, nothing was sent.
        let first = call(&scene, &payment, &[]);
        assert_eq!(first.code, Some(0), "{first:?}");
        scene.upstream.assert_effects(nth as usize + 1);
    }
}

#[test]
fn interrupted_it_says_how_to_go_on() {
    let scene = Scene::holding();
    scene.upstream.script("payments", "gate answer");
    let payment = Payment::new();
    let (json, url) = (payment.json(), scene.url("/payments"));
    let mut command = hapax_command();
    command.args(["call", "--key", &payment.key, "--json", &json, &url]).stdin(Stdio::null());
    let mut caller = Process::spawn("hapax call", &mut command);
    scene.upstream.arrived(1);
    caller.signal("INT");
    assert_eq!(caller.ended(SOON).code(), Some(5));
    let said = || caller.stderr().join("\n").contains(&format!("--key {}", payment.key));
    eventually("it says how to go on", SOON, said);
    scene.upstream.open("answer");
}

/// What the sender of a request says of its own retries comes through the gateway; nothing else that
/// begins like our own fields does.
#[test]
fn k7_a_service_behind_the_gateway_is_told_that_somebody_above_retries() {
    let scene = Scene::holding();
    let payment = Payment::new();
    assert_eq!(call(&scene, &payment, &["-H", "Hapax-Else: x"]).code, Some(0));
    let arrival = scene.upstream.only_arrival();
    assert_eq!(arrival.all("hapax-retries"), ["above"]);
    assert!(arrival.all("hapax-else").is_empty());
    assert_eq!(call(&scene, &Payment::new(), &["--attempts", "1"]).code, Some(0));
    assert!(scene.upstream.arrivals()[1].all("hapax-retries").is_empty());
}
