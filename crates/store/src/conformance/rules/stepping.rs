//! The steps of an execution, while one attempt is at it.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{
    AdvanceReason, OwnState, Ownership, Progress, Record, State, Step, StepData, StepEnd,
    WriteRefused,
};

use crate::{
    Clock, Store, StoreError, Written,
    conformance::{Ability, Harness, given::*},
};

/// The first step admits the execution: from here on an effect may exist. Later ones leave the
/// moment of the admission as it is.
pub async fn the_first_step_admits<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let claimed = node.claim(a_stepped_claim()).await.ours();
    assert_eq!((claimed.first_admitted, claimed.progress), (None, Progress::Accounted));
    assert_eq!(state(&node, claimed.id).await, State::Claimed);
    harness.clock().advance(HOUR);
    let admitted = Some(harness.clock().now());
    let first = begun(&node, &claimed, once("first")).await;
    assert_eq!(state(&node, claimed.id).await, State::Executing);
    assert_eq!(first.first_admitted, admitted);
    ended(&node, &claimed, "first").await;
    harness.clock().advance(A_MICROSECOND);
    let second = begun(&node, &claimed, once("second")).await;
    assert_eq!(second.first_admitted, admitted);
    assert_eq!(found(&node, claimed.id).await.record, second);
}

/// A step that was begun is in doubt, and no other one begins beside it, until it has ended.
pub async fn no_step_begins_beside_one_in_doubt<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = executing_with(&node, &[]).await;
    let first = begun(&node, &record, for_an_hour("first")).await;
    let resend_before = Some(harness.clock().now().after(HOUR));
    assert_eq!(first.progress, Progress::InDoubt { resend_before });
    assert_eq!(course(&node, record.claim).await, [in_doubt("first")]);
    let beside = node.begin_step(record.ownership(), once("second"), LEASE).await;
    assert_refused(&node, beside, WriteRefused::StepInDoubt, &first).await;
    assert_eq!(course(&node, record.claim).await, [in_doubt("first")]);
    let between = ended(&node, &record, "first").await;
    assert_eq!(between.progress, Progress::Accounted);
    let second = begun(&node, &record, once("second")).await;
    assert_eq!(second.progress, Progress::InDoubt { resend_before: None });
    assert_eq!(course(&node, record.claim).await, [is_done("first"), in_doubt("second")]);
}

/// Steps match (id, attempt, owner) like every write: neither a stranger nor a worker that was
/// paused past its lease begins or ends one, whatever its name (1; pitfall 2).
pub async fn a_paused_worker_is_fenced_from_steps<H: Harness>(mut harness: H) {
    let nodes = two_nodes(&mut harness).await;
    let paused = interrupted_after(&nodes[0], &["first"]).await;
    let resume = next_by_steps(&paused, AdvanceReason::Resume);
    let mut successor = nodes[1].advance(resume).await.ours();
    for is_in_step in [false, true] {
        if is_in_step {
            successor = begun(&nodes[1], &successor, once("second")).await;
        }
        let before = steps(&nodes[0], paused.claim).await;
        let stranger = Ownership { owner: an_owner(), ..successor.ownership() };
        for by in [paused.ownership(), stranger] {
            for name in ["first", "second", "third"] {
                let begun = nodes[0].begin_step(by, for_an_hour(name), LEASE).await;
                assert_refused(&nodes[0], begun, WriteRefused::Fenced, &successor).await;
                for end in [done_with(name), StepEnd::NotApplied] {
                    let ended = nodes[0].end_step(by, step_name(name), end, LEASE).await;
                    assert_refused(&nodes[0], ended, WriteRefused::Fenced, &successor).await;
                }
            }
        }
        assert_eq!(steps(&nodes[0], paused.claim).await, before);
    }
}

/// The end of a step that comes after its attempt became uncertain is welcome: its owner knows,
/// and the execution can go on. It begins nothing new (6).
pub async fn a_late_end_of_a_step_is_welcome<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    for end in [done_with("first"), StepEnd::NotApplied] {
        let record = executing_with(&node, &[]).await;
        begun(&node, &record, once("first")).await;
        harness.clock().advance(LEASE);
        let seen = found(&node, record.id).await.record.seen();
        node.doubt(record.id, seen).await.expect("a doubt is answered");
        let by = record.ownership();
        for _ in 0..2 {
            let late = node.end_step(by, step_name("first"), end.clone(), LEASE).await.done();
            assert_eq!((late.own_state, late.progress), (OwnState::Uncertain, Progress::Accounted));
            assert_eq!(found(&node, record.id).await.record, late);
        }
        node.begin_step(by, once("second"), LEASE).await.refused();
        node.advance(next_by_steps(&record, AdvanceReason::Resume)).await.theirs();
        let seen = found(&node, record.id).await.record;
        node.advance(next_by_steps(&seen, AdvanceReason::Resume)).await.ours();
    }
}

/// A step that has ended is not begun again and keeps its data; one that was never begun does not
/// end.
pub async fn an_ended_step_is_not_begun_again<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = executing_with(&node, &["first"]).await;
    let (by, before) = (record.ownership(), steps(&node, record.claim).await);
    let again = node.begin_step(by, for_an_hour("first"), LEASE).await;
    assert_refused(&node, again, WriteRefused::StepEnded, &record).await;
    let another_version = StepEnd::Done(StepData { version: 8, ..data_of("first") });
    for other in [done_with("other data"), another_version, StepEnd::NotApplied] {
        let ended = node.end_step(by, step_name("first"), other, LEASE).await;
        assert_refused(&node, ended, WriteRefused::StepEnded, &record).await;
    }
    let never_begun = node.end_step(by, step_name("second"), done_with("second"), LEASE).await;
    assert_refused(&node, never_begun, WriteRefused::NoSuchStep, &record).await;
    assert_eq!(steps(&node, record.claim).await, before);
}

/// What steps came to reads back byte for byte, with its version, in the order of beginnings, on
/// every node and after a restart.
pub async fn steps_read_back_exactly_and_in_order<H: Harness>(mut harness: H) {
    let [first, second] = two_nodes(&mut harness).await;
    let record = executing_with(&first, &[]).await;
    let every_byte = (0..=255).cycle().take(70_000).collect::<Vec<u8>>();
    let courses = [
        ("z", 0, Bytes::new()),
        ("A", u32::MAX, Bytes::from(every_byte)),
        ("a", 7, Bytes::from_static(b"\0{\"id\":1}\xff ")),
    ];
    let mut expected = Vec::new();
    for (name, version, bytes) in courses {
        harness.clock().advance(A_MICROSECOND);
        begun(&first, &record, once(name)).await;
        let data = StepData { version, bytes };
        let end = StepEnd::Done(data.clone());
        first.end_step(record.ownership(), step_name(name), end, LEASE).await.done();
        expected.push(Step {
            name: step_name(name),
            attempt: record.attempt,
            begun: harness.clock().now(),
            done: Some(data),
        });
    }
    assert_eq!(steps(&first, record.claim).await, expected);
    assert_eq!(steps(&second, record.claim).await, expected);
    let other = executing_with(&first, &[]).await;
    assert_eq!(steps(&first, other.claim).await, [], "another record has its own");
    drop(first);
    assert_eq!(steps(&harness.reopen().await, record.claim).await, expected);
}

/// A step that certainly did not happen is as if it had not begun: the record is accounted for,
/// and the step can begin, under a permission of its own.
pub async fn a_step_not_applied_is_as_if_not_begun<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = executing_with(&node, &["first"]).await;
    begun(&node, &record, for_an_hour("second")).await;
    let by = record.ownership();
    let without = node.end_step(by, step_name("second"), StepEnd::NotApplied, LEASE).await.done();
    assert_eq!(without.progress, Progress::Accounted);
    assert_eq!(course(&node, record.claim).await, [is_done("first")]);
    stepped(&node, &record, "other").await;
    let again = begun(&node, &record, once("second")).await;
    assert_eq!(again.progress, Progress::InDoubt { resend_before: None });
    let expected = [is_done("first"), is_done("other"), in_doubt("second")];
    assert_eq!(course(&node, record.claim).await, expected);
}

/// An attempt that is judged as a whole takes no steps: nothing would account for the rest of it.
pub async fn a_record_judged_as_a_whole_takes_no_steps<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    for record in [executing(&node).await, claimed(&node).await] {
        let by = record.ownership();
        let begun = node.begin_step(by, once("first"), LEASE).await;
        assert_refused(&node, begun, WriteRefused::NoSteps, &record).await;
        for end in [done_with("first"), StepEnd::NotApplied] {
            let ended = node.end_step(by, step_name("first"), end, LEASE).await;
            assert_refused(&node, ended, WriteRefused::NoSteps, &record).await;
        }
        assert_eq!(steps(&node, record.claim).await, []);
    }
}

/// Beginning and ending a step extend the lease, so an execution that goes on is not doubted.
pub async fn a_step_extends_the_lease<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = executing_with(&node, &[]).await;
    for name in ["first", "second", "third"] {
        for is_end in [false, true] {
            harness.clock().advance(LEASE - A_MICROSECOND);
            let written = match is_end {
                false => begun(&node, &record, once(name)).await,
                true => ended(&node, &record, name).await,
            };
            assert_eq!(written.lease_end, Some(harness.clock().now().after(LEASE)));
            assert_eq!(found(&node, record.id).await.record, written);
        }
    }
    let seen = found(&node, record.id).await.record.seen();
    harness.clock().advance(LEASE - A_MICROSECOND);
    node.doubt(record.id, seen).await.expect("a doubt is answered");
    assert_eq!(state(&node, record.id).await, State::Executing);
}

/// A beginning and an end issued again after a lost answer change nothing but the lease (7).
pub async fn a_step_issued_again_is_done_once<H: Harness>(mut harness: H) {
    let node = first_node(&harness).await;
    for committed in [true, false] {
        let record = executing_with(&node, &["first"]).await;
        let by = record.ownership();
        let lost = harness.lose_next_answer(committed).await;
        if !Ability::LoseAnswers.is_there::<H>(lost) {
            return;
        }
        node.begin_step(by, for_an_hour("second"), LEASE).await.lost();
        assert_eq!(steps(&node, record.claim).await.len(), if committed { 2 } else { 1 });
        let first_begun = harness.clock().now();
        if committed {
            harness.clock().advance(A_MICROSECOND);
        }
        let again = begun(&node, &record, for_an_hour("second")).await;
        let resend_before = Some(first_begun.after(HOUR));
        assert_eq!(again.progress, Progress::InDoubt { resend_before }, "the first one counts");
        assert_eq!(steps(&node, record.claim).await[1].begun, first_begun);

        for (name, end) in [("second", done_with("second")), ("third", StepEnd::NotApplied)] {
            begun(&node, &record, once(name)).await;
            let lost = harness.lose_next_answer(committed).await;
            assert_eq!(lost, Ok(()));
            node.end_step(by, step_name(name), end.clone(), LEASE).await.lost();
            let again = node.end_step(by, step_name(name), end, LEASE).await.done();
            assert_eq!(again.progress, Progress::Accounted);
            assert_eq!(course(&node, record.claim).await, [is_done("first"), is_done("second")]);
        }
    }
}

/// An end that is issued again when the next step is under way leaves that one in doubt.
pub async fn an_end_issued_again_later_ends_nothing_else<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = executing_with(&node, &["first"]).await;
    let second = begun(&node, &record, for_an_hour("second")).await;
    for (name, end) in [("first", done_with("first")), ("third", StepEnd::NotApplied)] {
        let again = node.end_step(record.ownership(), step_name(name), end, LEASE).await.done();
        assert_eq!(again, second, "{name}");
        assert_eq!(found(&node, record.id).await.record, second, "{name}");
    }
    assert_eq!(course(&node, record.claim).await, [is_done("first"), in_doubt("second")]);
}

/// A write to the steps of a record that is not there says so: history was lost (6).
pub async fn a_step_of_a_missing_record_says_that_it_is_missing<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let by = Ownership { id: an_id(), ..executing_with(&node, &[]).await.ownership() };
    assert_eq!(node.begin_step(by, once("first"), LEASE).await, Ok(Written::Missing));
    let ended = node.end_step(by, step_name("first"), done_with("first"), LEASE).await;
    assert_eq!(ended, Ok(Written::Missing));
    assert_eq!(try_found(&node, by.id).await, None, "nothing was made");
}

async fn assert_refused(
    node: &Arc<dyn Store>,
    written: Result<Written, StoreError>,
    why: WriteRefused,
    record: &Record,
) {
    let (refused, there) = written.refused();
    assert_eq!((refused, &there.record), (why, record));
    assert_eq!(found(node, record.id).await.record, *record);
}
