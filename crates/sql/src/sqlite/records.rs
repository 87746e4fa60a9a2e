//! Claiming, owning and finding records. What is legal is decided by [`Record`]'s own methods;
//! here it is read and written, inside one transaction.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::{
    Advance, AdvanceReason, Attempt, ClaimNumber, Ending, EndingKind, Found, NewClaim, OwnState,
    Ownership, PolicyDigest, Progress, Record, RecordId, Seen, Settlement, State, StoreTime,
    StoredResponse, WriteRefused,
};
use hapax_store::{Claimed, Written};
use rusqlite::params;

use super::{
    error::Failure,
    rows, sql, steps,
    view::{Tx, View},
};

/// The record with its response.
pub(super) fn find(view: &View<'_>, id: &RecordId) -> Result<Option<Found>, Failure> {
    match by_id(view, id)? {
        Some(record) => Ok(Some(found(view, record)?)),
        None => Ok(None),
    }
}

/// One atomic insert; only if the id is known already, what is there is read.
pub(super) fn claim(tx: &Tx<'_>, claim: &NewClaim) -> Result<Claimed, Failure> {
    let policy = policy_number(tx, &claim.policy)?;
    // The number is not known before it is inserted, and nothing else depends on it.
    let mut record = Record::new(claim, ClaimNumber(0), tx.epoch, tx.now);
    let (progress, resend_before) = rows::progress_codes(record.progress);
    let number = tx.insert(
        sql::ADD_RECORD,
        params![
            record.id.as_bytes(),
            rows::attempt_code(record.attempt),
            record.owner.as_bytes(),
            rows::own_state_code(record.own_state),
            record.fingerprint.to_bytes(),
            policy,
            record.lease_end.map(StoreTime::as_micros),
            record.clean,
            record.first_admitted.map(StoreTime::as_micros),
            progress,
            resend_before,
            record.secret_version,
            record.created.as_micros(),
        ],
        |row| row.get(0),
    )?;
    if let Some(number) = number {
        record.claim = ClaimNumber(number);
        return Ok(Claimed::Ours(record));
    }
    match by_id(tx, &claim.id)? {
        Some(there) if there.is_live_claim_of(&claim.owner) => Ok(Claimed::Ours(there)),
        Some(there) => Ok(Claimed::Theirs(Box::new(found(tx, there)?))),
        None => Ok(Claimed::Gone),
    }
}

/// Each claim by itself, in the order of ids, so that all batches take them in one order. What is
/// stored of one and cannot be read leaves none of them.
pub(super) fn claim_all(tx: &Tx<'_>, claims: &[NewClaim]) -> Result<Vec<Claimed>, Failure> {
    let mut by_id = (0..).zip(claims).collect::<Vec<(usize, _)>>();
    // Stable: of two claims of one id the first one is first.
    by_id.sort_by_key(|(_, claim)| claim.id);
    let mut claimed = tx.in_one(|| {
        let claim_one = |(place, one): (usize, &NewClaim)| Ok((place, claim(tx, one)?));
        by_id.into_iter().map(claim_one).collect::<Result<Vec<_>, Failure>>()
    })?;
    claimed.sort_unstable_by_key(|(place, _)| *place);
    Ok(claimed.into_iter().map(|(_, claimed)| claimed).collect())
}

pub(super) fn advance(tx: &Tx<'_>, advance: &Advance) -> Result<Claimed, Failure> {
    let Some(before) = by_id(tx, &advance.claim.id)? else {
        return Ok(Claimed::Gone);
    };
    if before.is_live_claim_of(&advance.claim.owner) {
        return Ok(Claimed::Ours(before));
    }
    let Ok((after, superseded)) = before.advance(advance, tx.epoch, tx.now) else {
        return Ok(Claimed::Theirs(Box::new(found(tx, before)?)));
    };
    // The slot first: it is what an older owner's settle and this takeover contend for.
    match superseded {
        Some(ending) => {
            add_ending(tx, &before, &ending)?;
            note(tx, before.claim, before.attempt, "superseded")?;
        }
        None => take_stub(tx, &before)?,
    }
    move_record(tx, &before, &after)?;
    tx.execute(sql::DROP_BODY, [after.claim.0])?;
    match advance.reason {
        AdvanceReason::Resend { .. } => note(tx, after.claim, after.attempt, "resent")?,
        AdvanceReason::Resume => note(tx, after.claim, after.attempt, "resumed")?,
        AdvanceReason::LeaseOver | AdvanceReason::Released => {}
    }
    Ok(Claimed::Ours(after))
}

pub(super) fn doubt(tx: &Tx<'_>, id: &RecordId, seen: &Seen) -> Result<Option<Found>, Failure> {
    let Some(before) = by_id(tx, id)? else {
        return Ok(None);
    };
    let after = match before.doubt(seen, tx.now) {
        Ok(after) => {
            write(tx, &before, &after)?;
            after
        }
        Err(_) => before,
    };
    found(tx, after).map(Some)
}

pub(super) fn admit(
    tx: &Tx<'_>,
    by: &Ownership,
    lease: Duration,
    resend_before: Option<StoreTime>,
) -> Result<Written, Failure> {
    owned(tx, by, |record| record.admit(by, lease, resend_before, tx.now))
}

pub(super) fn renew(tx: &Tx<'_>, by: &Ownership, lease: Duration) -> Result<Written, Failure> {
    owned(tx, by, |record| record.renew(by, lease, tx.now))
}

pub(super) fn settle(
    tx: &Tx<'_>,
    by: &Ownership,
    settlement: &Settlement,
) -> Result<Written, Failure> {
    let (mut was_open, mut had_steps) = (false, false);
    let written = owned(tx, by, |record| {
        was_open = record.ending.is_none();
        had_steps = record.progress != Progress::Whole;
        record.settle(by, settlement, tx.now)
    })?;
    if was_open && let Written::Done(record) = &written {
        keep_response(tx, record, settlement)?;
        if had_steps && record.progress == Progress::Whole {
            steps::forget(tx, record.claim)?;
        }
    }
    Ok(written)
}

/// An owner's write, if the record's rules permit it.
fn owned(
    tx: &Tx<'_>,
    by: &Ownership,
    step: impl FnOnce(&Record) -> Result<Record, WriteRefused>,
) -> Result<Written, Failure> {
    owned_with(tx, by, |record| Ok(step(record)))
}

/// An owner's write whose step reads and writes more than the record. It reads before it writes.
pub(super) fn owned_with(
    tx: &Tx<'_>,
    by: &Ownership,
    step: impl FnOnce(&Record) -> Result<Result<Record, WriteRefused>, Failure>,
) -> Result<Written, Failure> {
    let Some(before) = by_ownership(tx, by)? else {
        return Ok(Written::Missing);
    };
    match step(&before)? {
        Ok(after) => {
            write(tx, &before, &after)?;
            Ok(Written::Done(after))
        }
        Err(why) => Ok(Written::Refused { why, found: Box::new(found(tx, before)?) }),
    }
}

/// Writes what a step within an attempt changed, and notes what is beside the plain course.
fn write(tx: &Tx<'_>, before: &Record, after: &Record) -> Result<(), Failure> {
    let ended = if before.ending.is_none() { after.ending } else { None };
    if let Some(ending) = &ended {
        add_ending(tx, after, ending)?;
    }
    if own_row(before) != own_row(after) {
        move_record(tx, before, after)?;
    }
    let was_uncertain = before.own_state == OwnState::Uncertain;
    let is_uncertain = after.own_state == OwnState::Uncertain;
    match ended.map(|ending| ending.kind) {
        Some(EndingKind::Released) => note(tx, after.claim, after.attempt, "released"),
        Some(EndingKind::Outcome) if was_uncertain => {
            note(tx, after.claim, after.attempt, "settled-late")
        }
        None if is_uncertain && !was_uncertain => note(tx, after.claim, after.attempt, "uncertain"),
        _ => Ok(()),
    }
}

/// What of a record is in its own row.
fn own_row(record: &Record) -> Record {
    Record { ending: None, ..record.clone() }
}

fn move_record(tx: &Tx<'_>, before: &Record, after: &Record) -> Result<(), Failure> {
    let policy = policy_number(tx, &after.policy)?;
    let (progress_before, resend_before_before) = rows::progress_codes(before.progress);
    let (progress, resend_before) = rows::progress_codes(after.progress);
    tx.execute_one(
        sql::MOVE_RECORD,
        params![
            before.claim.0,
            rows::attempt_code(before.attempt),
            before.owner.as_bytes(),
            rows::own_state_code(before.own_state),
            before.fingerprint.to_bytes(),
            before.lease_end.map(StoreTime::as_micros),
            progress_before,
            resend_before_before,
            rows::attempt_code(after.attempt),
            after.owner.as_bytes(),
            rows::own_state_code(after.own_state),
            after.fingerprint.to_bytes(),
            policy,
            after.lease_end.map(StoreTime::as_micros),
            after.clean,
            after.first_admitted.map(StoreTime::as_micros),
            progress,
            resend_before,
        ],
    )
}

/// Takes the one slot in which an attempt ends.
fn add_ending(tx: &Tx<'_>, record: &Record, ending: &Ending) -> Result<(), Failure> {
    let has_steps = record.progress != Progress::Whole;
    let due = match ending.kind {
        EndingKind::Outcome if ending.kept || has_steps => {
            Some(ending.until.outcome.min(ending.until.tombstone))
        }
        EndingKind::Outcome | EndingKind::Released => Some(ending.until.tombstone),
        EndingKind::Superseded => None,
    };
    tx.execute_one(
        sql::ADD_ENDING,
        params![
            record.claim.0,
            rows::attempt_code(record.attempt),
            rows::ending_kind_code(ending.kind),
            ending.class.map(rows::class_code),
            ending.status,
            ending.kept,
            ending.at.as_micros(),
            ending.until.outcome.as_micros(),
            ending.until.tombstone.as_micros(),
            due.map(StoreTime::as_micros),
        ],
    )
}

fn take_stub(tx: &Tx<'_>, stub: &Record) -> Result<(), Failure> {
    tx.execute_one(sql::TAKE_STUB, params![stub.claim.0, rows::attempt_code(stub.attempt)])
}

fn note(tx: &Tx<'_>, claim: ClaimNumber, attempt: Attempt, what: &str) -> Result<(), Failure> {
    let attempt = rows::attempt_code(attempt);
    tx.execute_one(sql::NOTE, params![claim.0, tx.now.as_micros(), attempt, what])
}

fn keep_response(tx: &Tx<'_>, record: &Record, settlement: &Settlement) -> Result<(), Failure> {
    let (kind, response) = match settlement {
        Settlement::Outcome { response: Some(response), .. } => (Body::Outcome, response),
        Settlement::Unknown { observed: Some(response) } => (Body::Observed, response),
        // What was observed before stays evidence when nothing newer was observed.
        Settlement::Unknown { observed: None } => return Ok(()),
        Settlement::Outcome { response: None, .. } | Settlement::NotApplied { .. } => {
            tx.execute(sql::DROP_BODY, [record.claim.0])?;
            return Ok(());
        }
    };
    let attempt = rows::attempt_code(record.attempt);
    let head = response.encode_head();
    tx.execute_one(
        sql::PUT_BODY,
        params![record.claim.0, attempt, kind as i64, &head[..], &response.body[..]],
    )
}

/// The kinds of bodies, as they are stored.
#[derive(Clone, Copy)]
enum Body {
    Outcome = 0,
    Observed = 1,
}

fn found(view: &View<'_>, mut record: Record) -> Result<Found, Failure> {
    let kind = match record.state(view.now) {
        State::Succeeded | State::FailedTerminal | State::Tombstone => Body::Outcome,
        State::Uncertain => Body::Observed,
        State::Claimed | State::Executing | State::Released => {
            return Ok(Found { record, response: None, now: view.now });
        }
    };
    let response = response(view, record.claim, kind)?;
    // A clock that went back behind a sweep: the outcome counts again, its response is gone.
    if let Some(ending) = &mut record.ending
        && view.now < ending.until.outcome
    {
        ending.kept = response.is_some();
    }
    Ok(Found { record, response, now: view.now })
}

fn response(
    view: &View<'_>,
    claim: ClaimNumber,
    kind: Body,
) -> Result<Option<StoredResponse>, Failure> {
    let parts = view.first(sql::BODY, params![claim.0, kind as i64], |row| {
        Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?))
    })?;
    let Some((head, body)) = parts else {
        return Ok(None);
    };
    match StoredResponse::decode(Bytes::from(head), Bytes::from(body)) {
        Ok(response) => Ok(Some(response)),
        Err(error) => Err(Failure::Unreadable(format!("claim {}: {error}", claim.0))),
    }
}

fn by_id(view: &View<'_>, id: &RecordId) -> Result<Option<Record>, Failure> {
    view.first(sql::RECORD_BY_ID, [id.as_bytes()], rows::record)
}

/// Records lie in the order of claims, so the number finds the recent ones among themselves. A
/// store that lost history may have given it to another record.
fn by_ownership(view: &View<'_>, by: &Ownership) -> Result<Option<Record>, Failure> {
    match view.first(sql::RECORD_BY_CLAIM, [by.claim.0], rows::record)? {
        Some(record) if record.id == by.id => Ok(Some(record)),
        _ => by_id(view, &by.id),
    }
}

/// The number that a policy has in this store. It may be used before its text is stored; the text
/// is missing then, not the record.
fn policy_number(tx: &Tx<'_>, digest: &PolicyDigest) -> Result<i64, Failure> {
    if let Some(number) = tx.first(sql::POLICY_NUMBER, [&digest.0], |row| row.get(0))? {
        return Ok(number);
    }
    match tx.insert(sql::ADD_POLICY_NUMBER, [&digest.0], |row| row.get(0))? {
        Some(number) => Ok(number),
        None => Err(Failure::Unreadable("a policy's number cannot be made".to_owned())),
    }
}
