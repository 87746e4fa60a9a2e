//! Finding out what uncertain records came to: what is due, by whom it is looked into, and what
//! it is found to be. What is legal is decided by [`Record`](hapax_core::Record)'s own methods.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hapax_core::{
    ClaimNumber, Concluded, Judgement, OperationName, Owner, Ownership, Proof, Record, RunEnd,
    Settlement, State, Statement, StoreTime, Unprotected, WriteRefused,
};
use hapax_store::{
    BroughtIn, Doubted, Doubts, Due, PutOff, Reconcile, Reply, TakeDue, Written, evidence_word,
};
use rusqlite::{params, params_from_iter};

use super::{
    SqliteStore,
    error::Failure,
    records, rows, sql,
    view::{Tx, View},
    writes,
};

/// When an execution is looked at again whose lease is over and which nobody has admitted.
const LATER: Duration = Duration::from_secs(30);

/// What this node knows of the executions in the store: an index on their leases would cost every
/// claim and renewal.
///
/// Records lie in the order of claims, so each is come by once; the few that have not ended by then
/// are kept in mind until they have. Later attempts are watched in the store.
#[derive(Default)]
pub(super) struct Lookout {
    /// All claims up to this one were come by.
    upto: i64,
    /// Those that had not ended, and when each is to be looked at.
    live: BTreeMap<i64, StoreTime>,
}

impl Lookout {
    /// The claims whose lease may be over.
    fn over(&self, now: StoreTime, limit: usize) -> Vec<i64> {
        let over = self.live.iter().filter(|(_, look)| **look <= now);
        over.map(|(claim, _)| *claim).take(limit).collect()
    }
}

/// What a reading of executions showed.
struct Looked {
    /// A claim, when to look at it, and whether it has not ended.
    next: Vec<(i64, Option<StoreTime>, bool)>,
    later_attempts: Vec<i64>,
    now: StoreTime,
}

/// What became of an execution whose lease was to be over.
enum Seen {
    Doubted,
    Ended,
    Live(StoreTime),
}

impl Reconcile for SqliteStore {
    fn doubt_abandoned(&self, limit: usize) -> Reply<'_, Doubted> {
        Box::pin(async move {
            let upto = self.lookout.lock().upto;
            let looked = self.read(move |view| look(view, upto, limit)).await?;
            let more = looked.next.len() >= limit;
            let claims = {
                let mut lookout = self.lookout.lock();
                lookout.upto = looked.next.last().map_or(lookout.upto, |(claim, ..)| *claim);
                let not_ended = looked.next.iter().filter(|(.., not_ended)| *not_ended);
                // Without lease data it is locked, and never over.
                let not_ended = not_ended.filter_map(|(claim, end, _)| Some((*claim, (*end)?)));
                lookout.live.extend(not_ended);
                lookout.over(looked.now, limit)
            };
            let claims = [claims, looked.later_attempts].concat();
            if claims.is_empty() {
                return Ok(Doubted { records: 0, more });
            }
            let seen = self.write(move |tx| doubt(tx, &claims)).await?;
            let mut lookout = self.lookout.lock();
            let mut records = 0;
            for (claim, seen) in seen {
                match seen {
                    Seen::Live(look) => drop(lookout.live.insert(claim, look)),
                    Seen::Ended => drop(lookout.live.remove(&claim)),
                    Seen::Doubted => {
                        lookout.live.remove(&claim);
                        records += 1;
                    }
                }
            }
            Ok(Doubted { records, more })
        })
    }

    fn take_due(&self, take: TakeDue) -> Reply<'_, Vec<Due>> {
        Box::pin(async move {
            // Looked for beside the writer, which most of the time finds nothing.
            let take = Arc::new(take);
            let looking = Arc::clone(&take);
            if self.read(move |view| due(view, &looking)).await?.is_empty() {
                return Ok(Vec::new());
            }
            self.write(move |tx| take_due(tx, &take)).await
        })
    }

    fn put_off(&self, put_off: PutOff) -> Reply<'_, bool> {
        self.write(move |tx| self::put_off(tx, &put_off))
    }

    fn judge(&self, judgement: Judgement, holder: Option<Owner>) -> Reply<'_, Written> {
        self.write(move |tx| judge(tx, &judgement, holder.as_ref()))
    }

    fn prove(&self, proof: Proof) -> Reply<'_, Written> {
        self.write(move |tx| tx.in_one(|| prove(tx, &proof)))
    }

    fn close_earlier(
        &self,
        of: Ownership,
        closing: Owner,
        statement: Statement,
    ) -> Reply<'_, Written> {
        self.write(move |tx| close_earlier(tx, &of, closing, &statement))
    }

    fn bring_in(&self, unprotected: Unprotected) -> Reply<'_, BroughtIn> {
        self.write(move |tx| tx.in_one(|| bring_in(tx, &unprotected)))
    }

    fn doubts(&self) -> Reply<'_, Vec<Doubts>> {
        self.read(doubts)
    }
}

fn look(view: &View<'_>, upto: i64, limit: usize) -> Result<Looked, Failure> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let next = view.all(sql::RECORDS_AFTER, [upto, limit], |row| {
        let lease_end = row.get::<_, Option<i64>>(1)?.map(StoreTime::from_micros);
        Ok((row.get(0)?, lease_end, row.get(2)?))
    })?;
    let now = view.now.as_micros();
    let later_attempts = view.all(sql::DUE_EXECUTING, [now, limit], |row| row.get(0))?;
    Ok(Looked { next, later_attempts, now: view.now })
}

fn doubt(tx: &Tx<'_>, claims: &[i64]) -> Result<Vec<(i64, Seen)>, Failure> {
    let mut all_seen = Vec::with_capacity(claims.len());
    for &claim in claims {
        let record = records::by_claim(tx, ClaimNumber(claim))?;
        let seen = match record.as_ref().map(|record| (record, record.state(tx.now))) {
            Some((record, State::Executing)) if record.lease_over(tx.now) => {
                records::doubt(tx, &record.id, &record.seen())?;
                Seen::Doubted
            }
            // A claim that nobody took over can still be admitted.
            Some((record, State::Claimed)) if record.lease_over(tx.now) => {
                Seen::Live(tx.now.after(LATER))
            }
            Some((record, State::Executing | State::Claimed)) => {
                record.lease_end.map_or(Seen::Ended, Seen::Live)
            }
            _ => Seen::Ended,
        };
        all_seen.push((claim, seen));
    }
    Ok(all_seen)
}

fn due(view: &View<'_>, take: &TakeDue) -> Result<Vec<(i64, String, u32)>, Failure> {
    let names = take.operations.iter().map(OperationName::as_str).collect::<Vec<_>>();
    // Names are plain: nothing in them is escaped in JSON.
    let names = format!("[\"{}\"]", names.join("\",\""));
    let limit = i64::try_from(take.limit).unwrap_or(i64::MAX);
    view.all(sql::DUE, params![view.now.as_micros(), names, limit], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })
}

fn take_due(tx: &Tx<'_>, take: &TakeDue) -> Result<Vec<Due>, Failure> {
    let held_until = tx.now.after(take.lease).as_micros();
    let mut taken = Vec::new();
    for (claim, operation, probes) in due(tx, take)? {
        let (Some(record), Ok(operation)) =
            (records::by_claim(tx, ClaimNumber(claim))?, OperationName::new(&operation))
        else {
            continue;
        };
        let holder = take.holder.as_bytes();
        tx.execute_one(sql::HOLD, params![claim, holder, held_until, tx.now.as_micros()])?;
        taken.push(Due { found: records::found(tx, record)?, operation, probes });
    }
    Ok(taken)
}

fn put_off(tx: &Tx<'_>, put_off: &PutOff) -> Result<bool, Failure> {
    let PutOff { of, holder, after, evidence, statement } = put_off;
    let record = records::by_ownership(tx, of)?;
    let Some(record) = record
        .filter(|record| record.ownership() == *of && record.state(tx.now) == State::Uncertain)
    else {
        return Ok(false);
    };
    let held = params![record.claim.0, holder.as_bytes()];
    let Some(before) = tx.first(sql::HELD, held, |row| row.get::<_, Option<i64>>(0))? else {
        return Ok(false);
    };
    let (code, due) = (rows::evidence_code(*evidence), tx.now.after(*after).as_micros());
    tx.execute_one(sql::PUT_OFF, params![record.claim.0, holder.as_bytes(), due, code])?;
    if before != Some(code) {
        tx.write(vec![writes::said(&record, evidence_word(*evidence), statement, tx.now)])?;
    }
    Ok(true)
}

fn judge(tx: &Tx<'_>, judgement: &Judgement, holder: Option<&Owner>) -> Result<Written, Failure> {
    let Some(before) = records::by_ownership(tx, &judgement.of)? else {
        return Ok(Written::Missing);
    };
    let ended_before = before.ending.is_some();
    let lost = match holder {
        Some(holder) if !ended_before => {
            let held = params![before.claim.0, holder.as_bytes()];
            tx.first(sql::HELD, held, |_| Ok(()))?.is_none()
        }
        _ => false,
    };
    let judged = if lost { Err(WriteRefused::Fenced) } else { before.judge(judgement, tx.now) };
    let after = match judged {
        Ok(after) => after,
        Err(why) => {
            let found = Box::new(records::found(tx, before)?);
            return Ok(Written::Refused { why, found });
        }
    };
    // Issued again, it changes nothing.
    if !ended_before {
        let policy = records::policy_number(tx, &after.policy)?;
        tx.write(writes::judged(&before, &after, judgement, policy, tx.now))?;
    }
    Ok(Written::Done(Box::new(after)))
}

fn prove(tx: &Tx<'_>, proof: &Proof) -> Result<Written, Failure> {
    let Some(before) = records::by_ownership(tx, &proof.of)? else {
        return Ok(Written::Missing);
    };
    match before.prove(proof, tx.epoch, tx.now) {
        Ok(after) => {
            // Issued again, it changes nothing.
            if before.owner != proof.token {
                let policy = records::policy_number(tx, &after.policy)?;
                tx.write(writes::proven(&before, &after, proof, policy, tx.now))?;
            }
            Ok(Written::Done(Box::new(after)))
        }
        Err(why) => {
            if before.denies(&proof.of) && !has_said(tx, &before, &proof.statement)? {
                tx.write(vec![writes::said(&before, Proof::TOO_LATE, &proof.statement, tx.now)])?;
            }
            Ok(Written::Refused { why, found: Box::new(records::found(tx, before)?) })
        }
    }
}

/// Whether this was noted of a record before.
fn has_said(tx: &Tx<'_>, record: &Record, statement: &Statement) -> Result<bool, Failure> {
    let Statement { actor, reason } = statement;
    let said = params![record.claim.0, actor, reason];
    Ok(tx.first(sql::HAS_SAID, said, |_| Ok(()))?.is_some())
}

fn close_earlier(
    tx: &Tx<'_>,
    of: &Ownership,
    closing: Owner,
    statement: &Statement,
) -> Result<Written, Failure> {
    let Some(before) = records::by_ownership(tx, of)? else {
        return Ok(Written::Missing);
    };
    if before.is_closed_by(&closing) {
        return Ok(Written::Done(Box::new(before)));
    }
    match before.close(of, closing, tx.epoch, tx.now) {
        Ok((after, superseded)) => {
            let policy = records::policy_number(tx, &after.policy)?;
            tx.write(writes::closed(&before, &after, &superseded, statement, policy, tx.now))?;
            Ok(Written::Done(Box::new(after)))
        }
        Err(why) => Ok(Written::Refused { why, found: Box::new(records::found(tx, before)?) }),
    }
}

/// All of it in one transaction: what is noted of a run and what it does to the record.
fn bring_in(tx: &Tx<'_>, ran: &Unprotected) -> Result<BroughtIn, Failure> {
    let (record, is_new) = match records::by_id(tx, &ran.claim.id)? {
        None => (ran_alone(tx, ran)?, true),
        Some(there) if has_said(tx, &there, &ran.statement)? => (there, false),
        Some(there) => match follow(tx, &there, ran)? {
            Some(next) => (next, true),
            None => {
                let after = ran.beside(&there, tx.now);
                records::change(tx, &there, &after)?;
                (after, true)
            }
        },
    };
    if is_new {
        tx.write(vec![writes::said(&record, Unprotected::WORD, &ran.statement, tx.now)])?;
    }
    match &ran.end {
        None if !is_new => Ok(BroughtIn::Again),
        None => brought_in(tx, &record, ran),
        Some(end) => conclude(tx, record, ran, end),
    }
}

fn conclude(
    tx: &Tx<'_>,
    record: Record,
    ran: &Unprotected,
    end: &RunEnd,
) -> Result<BroughtIn, Failure> {
    let statement = ran.ended(end);
    if has_said(tx, &record, &statement)? {
        return Ok(BroughtIn::Again);
    }
    let concluded = ran.conclude(&record, end, tx.now);
    if concluded == Concluded::Later {
        return Ok(BroughtIn::Later);
    }
    tx.write(vec![writes::said(&record, Unprotected::ENDED, &statement, tx.now)])?;
    match concluded {
        Concluded::Settle => settle(tx, &record, end)?,
        Concluded::Follow => {
            if let Some(next) = follow(tx, &record, ran)? {
                settle(tx, &next, end)?;
                return Ok(BroughtIn::Recorded);
            }
        }
        Concluded::Judge(judgement) => drop(judge(tx, &judgement, None)?),
        Concluded::Later | Concluded::Stands => {}
    }
    brought_in(tx, &record, ran)
}

/// The record of a run whose key nobody had.
fn ran_alone(tx: &Tx<'_>, ran: &Unprotected) -> Result<Record, Failure> {
    let policy = records::policy_number(tx, &ran.claim.policy)?;
    let mut record = ran.record(ClaimNumber(0), tx.epoch, tx.now);
    let values = params_from_iter(writes::new_record(&record, policy));
    let number = tx.insert(sql::ADD_RECORD, values)?;
    // Under the write lock nobody else has made it since.
    record.claim = ClaimNumber(number.unwrap_or_default());
    Ok(record)
}

/// Takes the stub of a free key for a run, where that may follow it.
fn follow(tx: &Tx<'_>, stub: &Record, ran: &Unprotected) -> Result<Option<Record>, Failure> {
    if !Unprotected::follows(stub.state(tx.now)) {
        return Ok(None);
    }
    let advance = ran.advance(stub);
    let Ok((next, superseded)) = stub.advance(&advance, tx.epoch, tx.now) else {
        return Ok(None);
    };
    let policy = records::policy_number(tx, &next.policy)?;
    tx.write(writes::advance(stub, &next, superseded.as_ref(), &advance, policy, tx.now))?;
    Ok(Some(next))
}

/// What proves nothing about the attempts before it leaves the record uncertain.
fn settle(tx: &Tx<'_>, record: &Record, end: &RunEnd) -> Result<(), Failure> {
    let settled = records::settle(tx, &record.ownership(), &end.settlement)?;
    if let Written::Refused { why: WriteRefused::NotClean, .. } = settled {
        let unknown = Settlement::Unknown { observed: None };
        records::settle(tx, &record.ownership(), &unknown)?;
    }
    Ok(())
}

fn brought_in(tx: &Tx<'_>, record: &Record, ran: &Unprotected) -> Result<BroughtIn, Failure> {
    if record.owner == ran.claim.owner {
        return Ok(BroughtIn::Recorded);
    }
    let found = match records::by_id(tx, &record.id)? {
        Some(there) => records::found(tx, there)?,
        None => records::found(tx, record.clone())?,
    };
    Ok(BroughtIn::Beside { found: Box::new(found) })
}

fn doubts(view: &View<'_>) -> Result<Vec<Doubts>, Failure> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Option<String>>(0)?, row.get(1)?));
    let mut doubts = Vec::<Doubts>::new();
    for (operation, since) in view.all(sql::DOUBTS, (), read)? {
        let operation = operation.and_then(|name| OperationName::new(&name).ok());
        let since = StoreTime::from_micros(since);
        match doubts.last_mut().filter(|last| last.operation == operation) {
            Some(last) => last.since.push(since),
            None => doubts.push(Doubts { operation, since: vec![since], now: view.now }),
        }
    }
    Ok(doubts)
}
