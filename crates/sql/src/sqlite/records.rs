//! Claiming, owning and finding records. What is legal is decided by [`Record`]'s own methods;
//! here it is read and written, inside one transaction.

use std::time::Duration;

use hapax_core::{
    Advance, ClaimNumber, Found, NewClaim, Ownership, PolicyDigest, Record, RecordId, Seen,
    Settlement, StoreTime, StoredResponse, WriteRefused,
};
use hapax_store::{Claimed, Written};
use rusqlite::{params, params_from_iter};

use super::{
    error::Failure,
    rows, sql,
    view::{Tx, View},
    writes::{self, Body, Stepped},
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
    let values = params_from_iter(writes::new_record(&record, policy));
    if let Some(number) = tx.insert(sql::ADD_RECORD, values)? {
        record.claim = ClaimNumber(number);
        return Ok(Claimed::Ours(Box::new(record)));
    }
    match by_id(tx, &claim.id)? {
        Some(there) if there.is_live_claim_of(&claim.owner) => Ok(Claimed::Ours(Box::new(there))),
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
        return Ok(Claimed::Ours(Box::new(before)));
    }
    let Ok((after, superseded)) = before.advance(advance, tx.epoch, tx.now) else {
        return Ok(Claimed::Theirs(Box::new(found(tx, before)?)));
    };
    let policy = policy_number(tx, &after.policy)?;
    let superseded = superseded.as_ref();
    tx.write(writes::advance(&before, &after, superseded, advance, policy, tx.now))?;
    Ok(Claimed::Ours(Box::new(after)))
}

pub(super) fn doubt(tx: &Tx<'_>, id: &RecordId, seen: &Seen) -> Result<Option<Found>, Failure> {
    let Some(before) = by_id(tx, id)? else {
        return Ok(None);
    };
    let after = match before.doubt(seen, tx.now) {
        Ok(after) => {
            change(tx, &before, &after)?;
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
    owned_with(tx, by, |before| Ok(writes::settled(before, by, settlement, tx.now)))
}

/// An owner's write, if the record's rules permit it.
fn owned(
    tx: &Tx<'_>,
    by: &Ownership,
    step: impl FnOnce(&Record) -> Result<Record, WriteRefused>,
) -> Result<Written, Failure> {
    owned_with(tx, by, |before| Ok(step(before).map(|after| (after, Vec::new()))))
}

/// An owner's write whose step reads more than the record, and writes more beside it.
pub(super) fn owned_with<'a>(
    tx: &Tx<'_>,
    by: &Ownership,
    step: impl FnOnce(&Record) -> Result<Stepped<'a>, Failure>,
) -> Result<Written, Failure> {
    let Some(before) = by_ownership(tx, by)? else {
        return Ok(Written::Missing);
    };
    match step(&before)? {
        Ok((after, beside)) => {
            change(tx, &before, &after)?;
            tx.write(beside)?;
            Ok(Written::Done(Box::new(after)))
        }
        Err(why) => Ok(Written::Refused { why, found: Box::new(found(tx, before)?) }),
    }
}

pub(super) fn change(tx: &Tx<'_>, before: &Record, after: &Record) -> Result<(), Failure> {
    let policy = if writes::moves(before, after) { policy_number(tx, &after.policy)? } else { 0 };
    tx.write(writes::change(before, after, policy, tx.now))
}

pub(super) fn found(view: &View<'_>, record: Record) -> Result<Found, Failure> {
    let response = match Body::of(&record, view.now) {
        Some(kind) => response(view, record.claim, kind)?,
        None => None,
    };
    Ok(writes::found(record, response, view.now))
}

fn response(
    view: &View<'_>,
    claim: ClaimNumber,
    kind: Body,
) -> Result<Option<StoredResponse>, Failure> {
    view.first(sql::BODY, params![claim.0, kind.code()], |row| rows::response(row))
}

pub(super) fn by_id(view: &View<'_>, id: &RecordId) -> Result<Option<Record>, Failure> {
    view.first(sql::RECORD_BY_ID, [id.as_bytes()], |row| rows::record(row))
}

pub(super) fn by_claim(view: &View<'_>, claim: ClaimNumber) -> Result<Option<Record>, Failure> {
    view.first(sql::RECORD_BY_CLAIM, [claim.0], |row| rows::record(row))
}

/// Records lie in the order of claims, so the number finds the recent ones among themselves. A
/// store that lost history may have given it to another record.
pub(super) fn by_ownership(view: &View<'_>, by: &Ownership) -> Result<Option<Record>, Failure> {
    match by_claim(view, by.claim)? {
        Some(record) if record.id == by.id => Ok(Some(record)),
        _ => by_id(view, &by.id),
    }
}

/// The number that a policy has in this store. It may be used before its text is stored; the text
/// is missing then, not the record.
pub(super) fn policy_number(tx: &Tx<'_>, digest: &PolicyDigest) -> Result<i64, Failure> {
    if let Some(number) = tx.policy_number(digest)? {
        return Ok(number);
    }
    match tx.insert(sql::ADD_POLICY_NUMBER, [&digest.0])? {
        Some(number) => Ok(number),
        None => Err(Failure::Unreadable("a policy's number cannot be made".to_owned())),
    }
}
