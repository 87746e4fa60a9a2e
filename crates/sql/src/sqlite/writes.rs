//! What operations write: statements with their values, whichever driver executes them. That a
//! write is legal, [`Record`]'s methods have said before.

use std::{borrow::Cow, fmt::Display};

use hapax_core::{
    Advance, AdvanceReason, AppliedOutcome, Attempt, ClaimNumber, Ending, EndingKind, Found,
    Judgement, OwnState, Ownership, Progress, Proof, Record, Ruling, Settlement, State, Statement,
    StepData, StepName, StoreTime, StoredResponse, WriteRefused,
};
use hapax_store::StoreError;
use rusqlite::{
    ToSql,
    types::{ToSqlOutput, ValueRef},
};

use super::{rows, sql};

/// One statement of a write.
pub(super) struct Write<'a> {
    pub(super) sql: &'static str,
    pub(super) values: Vec<Value<'a>>,
    /// Its condition was just read to hold: it must touch one row.
    pub(super) one: bool,
}

/// A value of a statement.
#[derive(Clone)]
pub(super) enum Value<'a> {
    Null,
    Integer(i64),
    Bytes(Cow<'a, [u8]>),
    Text(&'a str),
}

impl<'a> Write<'a> {
    fn one<const N: usize>(sql: &'static str, values: [Value<'a>; N]) -> Self {
        Self { sql, values: values.into(), one: true }
    }

    fn any<const N: usize>(sql: &'static str, values: [Value<'a>; N]) -> Self {
        Self { sql, values: values.into(), one: false }
    }
}

/// A write whose condition was just read to hold touched not one row.
pub(super) fn touched(rows: impl Display) -> StoreError {
    let reason = format!("a write of one row touched {rows}: its indexes disagree");
    StoreError::Corrupt { reason }
}

/// The values of `sql::ADD_RECORD`.
pub(super) fn new_record(record: &Record, policy: i64) -> [Value<'_>; 13] {
    let (progress, resend_before) = rows::progress_codes(record.progress);
    [
        record.id.as_bytes().into(),
        attempt(record.attempt),
        record.owner.as_bytes().into(),
        rows::own_state_code(record.own_state).into(),
        fingerprint(record),
        policy.into(),
        record.lease_end.into(),
        record.clean.into(),
        record.first_admitted.into(),
        progress.into(),
        resend_before.into(),
        i64::from(record.secret_version).into(),
        record.created.into(),
    ]
}

/// The move of a record to its next attempt. `policy` is the number of its policy.
pub(super) fn advance<'a>(
    before: &'a Record,
    after: &'a Record,
    superseded: Option<&Ending>,
    advance: &Advance,
    policy: i64,
    now: StoreTime,
) -> Vec<Write<'a>> {
    // The slot first: it is what an older owner's settle and this takeover contend for.
    let mut writes = match superseded {
        Some(ending) => vec![end(before, ending), note(before, "superseded", now)],
        None => vec![take_stub(before)],
    };
    writes.push(move_record(before, after, policy));
    writes.push(drop_body(after.claim));
    match advance.reason {
        AdvanceReason::Resend { .. } => writes.push(note(after, "resent", now)),
        AdvanceReason::Resume => writes.push(note(after, "resumed", now)),
        AdvanceReason::LeaseOver | AdvanceReason::Released => {}
    }
    // A look at the end of the table of records does not come to it again.
    writes.push(watch(after, after.lease_end.unwrap_or(now)));
    writes
}

/// What a step within an attempt changed, and a note of what is beside the plain course.
/// `policy` is the number of the record's policy.
pub(super) fn change<'a>(
    before: &'a Record,
    after: &'a Record,
    policy: i64,
    now: StoreTime,
) -> Vec<Write<'a>> {
    let mut writes = Vec::new();
    let ended = if before.ending.is_none() { after.ending } else { None };
    if let Some(ending) = &ended {
        writes.push(end(after, ending));
    }
    if moves(before, after) {
        writes.push(move_record(before, after, policy));
    }
    let was_uncertain = before.own_state == OwnState::Uncertain;
    let is_uncertain = after.own_state == OwnState::Uncertain;
    let what = match ended.map(|ending| ending.kind) {
        Some(EndingKind::Released) => Some("released"),
        Some(EndingKind::Outcome) if was_uncertain => Some("settled-late"),
        None if is_uncertain && !was_uncertain => Some("uncertain"),
        _ => None,
    };
    writes.extend(what.map(|what| note(after, what, now)));
    match ended {
        None if is_uncertain && !was_uncertain => writes.push(watch(after, now)),
        // The first attempt of a plain course was never watched.
        Some(_) if was_uncertain || after.attempt.number() > 1 => writes.push(end_watch(after)),
        _ => {}
    }
    writes
}

/// A verdict: the ending of the attempt that it is about, with what it leaves beside it.
pub(super) fn judged<'a>(
    before: &'a Record,
    after: &'a Record,
    judgement: &'a Judgement,
    policy: i64,
    now: StoreTime,
) -> Vec<Write<'a>> {
    let mut writes = Vec::new();
    if let Some(ending) = &after.ending {
        writes.push(end(after, ending));
    }
    if moves(before, after) {
        writes.push(move_record(before, after, policy));
    }
    match &judgement.ruling {
        Ruling::Applied(AppliedOutcome { response: Some(response), .. }) => {
            writes.push(put_body(after, Body::Outcome, response));
        }
        Ruling::Applied(_) | Ruling::NotApplied => writes.push(drop_body(after.claim)),
    }
    if before.progress != Progress::Whole && after.progress == Progress::Whole {
        writes.push(Write::any(sql::DROP_STEPS, [after.claim.0.into()]));
    }
    writes.push(said(after, judgement.word(), &judgement.statement, now));
    writes.push(end_watch(after));
    writes
}

/// The move of the stub of a freed record to an attempt that ends with proof of the effect.
pub(super) fn proven<'a>(
    stub: &'a Record,
    after: &'a Record,
    proof: &'a Proof,
    policy: i64,
    now: StoreTime,
) -> Vec<Write<'a>> {
    // The stub's slot first: it is what a claim and this contend for.
    let mut writes = vec![take_stub(stub), move_record(stub, after, policy)];
    writes.extend(after.ending.iter().map(|ending| end(after, ending)));
    writes.push(match &proof.response {
        Some(response) => put_body(after, Body::Outcome, response),
        None => drop_body(after.claim),
    });
    writes.push(said(after, Proof::BINDS, &proof.statement, now));
    writes.push(end_watch(after));
    writes
}

/// The move of a record to the attempt that closes the earlier ones.
pub(super) fn closed<'a>(
    before: &'a Record,
    after: &'a Record,
    superseded: &Ending,
    statement: &'a Statement,
    policy: i64,
    now: StoreTime,
) -> Vec<Write<'a>> {
    vec![
        end(before, superseded),
        note(before, "superseded", now),
        move_record(before, after, policy),
        said(after, "closing", statement, now),
    ]
}

/// Whether a record's own row changes.
pub(super) fn moves(before: &Record, after: &Record) -> bool {
    let own_row = |record: &Record| Record { ending: None, ..record.clone() };
    own_row(before) != own_row(after)
}

/// What a step makes of a record, and what it writes beside it.
pub(super) type Stepped<'a> = Result<(Record, Vec<Write<'a>>), WriteRefused>;

/// A record settled by its owner, with its body and its steps.
pub(super) fn settled<'a>(
    before: &Record,
    by: &Ownership,
    settlement: &'a Settlement,
    now: StoreTime,
) -> Stepped<'a> {
    let after = before.settle(by, settlement, now)?;
    // Issued again, it changes nothing.
    if before.ending.is_some() {
        return Ok((after, Vec::new()));
    }
    let mut writes = Vec::new();
    match settlement {
        Settlement::Outcome { response: Some(response), .. } => {
            writes.push(put_body(&after, Body::Outcome, response));
        }
        Settlement::Unknown { observed: Some(response) } => {
            writes.push(put_body(&after, Body::Observed, response));
        }
        // What was observed before stays evidence when nothing newer was observed.
        Settlement::Unknown { observed: None } => {}
        Settlement::Outcome { response: None, .. } | Settlement::NotApplied { .. } => {
            writes.push(drop_body(after.claim));
        }
    }
    if before.progress != Progress::Whole && after.progress == Progress::Whole {
        writes.push(Write::any(sql::DROP_STEPS, [after.claim.0.into()]));
    }
    Ok((after, writes))
}

/// A step that begins, or that began and ended in one transaction (`done`).
pub(super) fn add_step<'a>(
    record: &Record,
    name: &'a StepName,
    done: Option<&'a StepData>,
    now: StoreTime,
) -> Write<'a> {
    Write::one(
        sql::ADD_STEP,
        [
            record.claim.0.into(),
            Value::Text(name.as_str()),
            attempt(record.attempt),
            now.into(),
            done.map(|data| i64::from(data.version)).into(),
            done.map_or(Value::Null, |data| (&data.bytes[..]).into()),
        ],
    )
}

/// A step in doubt that is begun by another attempt. `n` is its number.
pub(super) fn begin_step_again<'a>(record: &Record, n: i64) -> Write<'a> {
    Write::one(sql::BEGIN_STEP_AGAIN, [record.claim.0.into(), n.into(), attempt(record.attempt)])
}

pub(super) fn end_step<'a>(record: &Record, n: i64, data: &'a StepData) -> Write<'a> {
    let version = i64::from(data.version);
    Write::one(
        sql::END_STEP,
        [record.claim.0.into(), n.into(), version.into(), (&data.bytes[..]).into()],
    )
}

pub(super) fn drop_step<'a>(record: &Record, n: i64) -> Write<'a> {
    Write::one(sql::DROP_STEP, [record.claim.0.into(), n.into()])
}

/// The kinds of bodies, as they are stored.
#[derive(Clone, Copy)]
pub(super) enum Body {
    Outcome,
    Observed,
}

impl Body {
    pub(super) const fn code(self) -> i64 {
        match self {
            Self::Outcome => 0,
            Self::Observed => 1,
        }
    }

    /// The body that belongs to a record as it is now.
    pub(super) fn of(record: &Record, now: StoreTime) -> Option<Self> {
        match record.state(now) {
            State::Succeeded | State::FailedTerminal | State::Tombstone => Some(Self::Outcome),
            State::Uncertain => Some(Self::Observed),
            State::Claimed | State::Executing | State::Released => None,
        }
    }
}

/// A record as it is found with the body that belongs to it.
pub(super) fn found(mut record: Record, response: Option<StoredResponse>, now: StoreTime) -> Found {
    // A clock that went back behind a sweep: the outcome counts again, its response is gone.
    if let Some(ending) = &mut record.ending
        && ending.kind == EndingKind::Outcome
        && now < ending.until.outcome
    {
        ending.kept = response.is_some();
    }
    Found { record, response, now }
}

/// Takes the one slot in which an attempt ends.
fn end<'a>(record: &Record, ending: &Ending) -> Write<'a> {
    let has_steps = record.progress != Progress::Whole;
    let due = match ending.kind {
        EndingKind::Outcome if ending.kept || has_steps => {
            Some(ending.until.outcome.min(ending.until.tombstone))
        }
        EndingKind::Outcome | EndingKind::Released => Some(ending.until.tombstone),
        EndingKind::Superseded => None,
    };
    Write::one(
        sql::ADD_ENDING,
        [
            record.claim.0.into(),
            attempt(record.attempt),
            rows::ending_kind_code(ending.kind).into(),
            ending.class.map(rows::class_code).into(),
            ending.status.map(i64::from).into(),
            ending.kept.into(),
            ending.at.into(),
            ending.until.outcome.into(),
            ending.until.tombstone.into(),
            due.into(),
            rows::ended_by_code(ending.by),
        ],
    )
}

fn take_stub<'a>(stub: &Record) -> Write<'a> {
    Write::one(sql::TAKE_STUB, [stub.claim.0.into(), attempt(stub.attempt)])
}

fn move_record<'a>(before: &'a Record, after: &'a Record, policy: i64) -> Write<'a> {
    let (progress_before, resend_before_before) = rows::progress_codes(before.progress);
    let (progress, resend_before) = rows::progress_codes(after.progress);
    Write::one(
        sql::MOVE_RECORD,
        [
            before.claim.0.into(),
            attempt(before.attempt),
            before.owner.as_bytes().into(),
            rows::own_state_code(before.own_state).into(),
            fingerprint(before),
            before.lease_end.into(),
            progress_before.into(),
            resend_before_before.into(),
            attempt(after.attempt),
            after.owner.as_bytes().into(),
            rows::own_state_code(after.own_state).into(),
            fingerprint(after),
            policy.into(),
            after.lease_end.into(),
            after.clean.into(),
            after.first_admitted.into(),
            progress.into(),
            resend_before.into(),
        ],
    )
}

fn note<'a>(record: &Record, what: &'a str, now: StoreTime) -> Write<'a> {
    let (claim, attempt) = (record.claim.0.into(), attempt(record.attempt));
    let values = [claim, now.into(), attempt, Value::Text(what), Value::Null, Value::Null];
    Write::one(sql::NOTE, values)
}

/// A note of what somebody decided or looked up.
pub(super) fn said<'a>(
    record: &Record,
    what: &'a str,
    statement: &'a Statement,
    now: StoreTime,
) -> Write<'a> {
    let (claim, attempt) = (record.claim.0.into(), attempt(record.attempt));
    let (actor, reason) = (Value::Text(&statement.actor), Value::Text(&statement.reason));
    Write::one(sql::NOTE, [claim, now.into(), attempt, Value::Text(what), actor, reason])
}

fn watch<'a>(record: &Record, due: StoreTime) -> Write<'a> {
    Write::one(sql::WATCH, [record.claim.0.into(), due.into()])
}

fn end_watch<'a>(record: &Record) -> Write<'a> {
    Write::any(sql::END_WATCH, [record.claim.0.into()])
}

fn put_body<'a>(record: &Record, kind: Body, response: &'a StoredResponse) -> Write<'a> {
    Write::one(
        sql::PUT_BODY,
        [
            record.claim.0.into(),
            attempt(record.attempt),
            kind.code().into(),
            Value::Bytes(response.encode_head().to_vec().into()),
            (&response.body[..]).into(),
        ],
    )
}

fn drop_body<'a>(claim: ClaimNumber) -> Write<'a> {
    Write::any(sql::DROP_BODY, [claim.0.into()])
}

fn attempt<'a>(attempt: Attempt) -> Value<'a> {
    rows::attempt_code(attempt).into()
}

fn fingerprint<'a>(record: &Record) -> Value<'a> {
    Value::Bytes(record.fingerprint.to_bytes().to_vec().into())
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<bool> for Value<'_> {
    fn from(flag: bool) -> Self {
        Self::Integer(flag.into())
    }
}

impl From<StoreTime> for Value<'_> {
    fn from(time: StoreTime) -> Self {
        Self::Integer(time.as_micros())
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Value<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::from(&bytes[..])
    }
}

impl<'a, T: Into<Self>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}
