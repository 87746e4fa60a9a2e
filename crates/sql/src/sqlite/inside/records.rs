//! Records in an open transaction: the same rules and the same statements as the store's own.

use std::time::Duration;

use hapax_core::{
    Advance, ClaimNumber, Found, NewClaim, Ownership, PolicyDigest, Record, RecordId, Settlement,
    StepData, StepName, StoreTime,
};
use hapax_store::{Claimed, StoreError, Written};
use sqlx::sqlite::SqliteRow;

use super::{driver::statement, open_transaction::OpenTransaction};
use crate::{
    sqlite::{
        error::Failure,
        rows, sql,
        steps::{self, Concerned},
        writes::{self, Body, Stepped, Value, Write},
    },
    telemetry,
};

/// Their errors are those of a transaction: after one of them it cannot be committed any more.
/// Times are on the store's clock, read at the call.
impl OpenTransaction {
    /// The record with its response, if it is there: what the authoritative store has.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub async fn find(&mut self, id: &RecordId) -> Result<Option<Found>, StoreError> {
        self.start()?;
        let found = self.try_find(id).await.map_err(failed)?;
        self.done();
        Ok(found)
    }

    /// Claims a record that nobody has: one atomic insert, which vanishes with the transaction.
    /// Before any statement of the application.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub async fn claim(&mut self, claim: &NewClaim) -> Result<Claimed, StoreError> {
        self.must_be_first()?;
        self.start()?;
        let claimed = self.try_claim(claim).await.map_err(failed)?;
        self.claimed(&claimed);
        Ok(claimed)
    }

    /// Moves a record to its next attempt, if it still is as it was seen. Before any statement of
    /// the application.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub async fn advance(&mut self, advance: &Advance) -> Result<Claimed, StoreError> {
        self.must_be_first()?;
        self.start()?;
        let claimed = self.try_advance(advance).await.map_err(failed)?;
        self.claimed(&claimed);
        Ok(claimed)
    }

    /// Ends a step that was done in this transaction, whether it was begun before or not. Admits
    /// a record that is only claimed, and sets the savepoint behind it.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub async fn end_step(
        &mut self,
        by: &Ownership,
        name: &StepName,
        data: &StepData,
        lease: Duration,
    ) -> Result<Written, StoreError> {
        self.end_savepoint().await?;
        self.start()?;
        let written = self.try_end_step(by, name, data, lease).await;
        let written = self.written(written)?;
        self.begin_savepoint().await?;
        Ok(written)
    }

    /// Admits a record that is only claimed, for an effect that is in this transaction.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub async fn admit(&mut self, by: &Ownership, lease: Duration) -> Result<Written, StoreError> {
        self.end_savepoint().await?;
        self.start()?;
        let written = self.try_admit(by, lease).await;
        self.written(written)
    }

    /// Ends the attempt with its outcome, releases it, or makes it uncertain: the last write
    /// before the commit.
    ///
    /// # Errors
    /// Any [`StoreError`].
    pub async fn settle(
        &mut self,
        by: &Ownership,
        settlement: &Settlement,
    ) -> Result<Written, StoreError> {
        self.end_savepoint().await?;
        self.start()?;
        let written = self.try_settle(by, settlement).await;
        self.written(written)
    }

    fn claimed(&mut self, claimed: &Claimed) {
        if let Claimed::Ours(record) = claimed {
            self.record = Some((**record).clone());
        }
        self.done();
    }

    fn written(&mut self, written: Result<Written, Failure>) -> Result<Written, StoreError> {
        let written = written.map_err(failed)?;
        if let Written::Done(record) = &written {
            self.record = Some((**record).clone());
        }
        self.done();
        Ok(written)
    }

    async fn try_find(&mut self, id: &RecordId) -> Result<Option<Found>, Failure> {
        match self.by_id(id).await? {
            Some(record) => self.found(record).await.map(Some),
            None => Ok(None),
        }
    }

    async fn try_claim(&mut self, claim: &NewClaim) -> Result<Claimed, Failure> {
        let (epoch, policy) = self.epoch_and_policy(&claim.policy).await?;
        let mut record = Record::new(claim, ClaimNumber(0), epoch, self.now());
        let values = writes::new_record(&record, policy);
        if let Some(number) = self.insert(sql::ADD_RECORD, values).await? {
            record.claim = ClaimNumber(number);
            return Ok(Claimed::Ours(Box::new(record)));
        }
        match self.by_id(&claim.id).await? {
            Some(there) if there.is_live_claim_of(&claim.owner) => {
                Ok(Claimed::Ours(Box::new(there)))
            }
            Some(there) => self.theirs(there).await,
            None => Ok(Claimed::Gone),
        }
    }

    async fn try_advance(&mut self, advance: &Advance) -> Result<Claimed, Failure> {
        let Some(before) = self.by_id(&advance.claim.id).await? else {
            return Ok(Claimed::Gone);
        };
        if before.is_live_claim_of(&advance.claim.owner) {
            return Ok(Claimed::Ours(Box::new(before)));
        }
        let (epoch, _) = self.epoch_and_policy(&advance.claim.policy).await?;
        let now = self.now();
        let Ok((after, superseded)) = before.advance(advance, epoch, now) else {
            return self.theirs(before).await;
        };
        let (_, policy) = self.epoch_and_policy(&after.policy).await?;
        let superseded = superseded.as_ref();
        let writes = writes::advance(&before, &after, superseded, advance, policy, now);
        self.write(writes).await?;
        Ok(Claimed::Ours(Box::new(after)))
    }

    async fn try_end_step(
        &mut self,
        by: &Ownership,
        name: &StepName,
        data: &StepData,
        lease: Duration,
    ) -> Result<Written, Failure> {
        let Some(before) = self.by_ownership(by).await? else {
            return Ok(Written::Missing);
        };
        let values = [before.claim.0.into(), Value::Text(name.as_str())];
        let found = statement(sql::STEPS_CONCERNED, values).fetch_all(&mut *self.tx).await?;
        let found = found.iter().map(rows::step).collect::<Result<_, _>>()?;
        let now = self.now();
        let stepped = steps::done(&before, &Concerned(found), by, name, data, lease, now);
        self.step(before, stepped, now).await
    }

    async fn try_admit(&mut self, by: &Ownership, lease: Duration) -> Result<Written, Failure> {
        let Some(before) = self.by_ownership(by).await? else {
            return Ok(Written::Missing);
        };
        let now = self.now();
        let stepped = before.admit(by, lease, None, now).map(|after| (after, Vec::new()));
        self.step(before, stepped, now).await
    }

    async fn try_settle(
        &mut self,
        by: &Ownership,
        settlement: &Settlement,
    ) -> Result<Written, Failure> {
        let Some(before) = self.by_ownership(by).await? else {
            return Ok(Written::Missing);
        };
        let now = self.now();
        let stepped = writes::settled(&before, by, settlement, now);
        self.step(before, stepped, now).await
    }

    /// Writes what an owner's step made of a record, if its rules permit it.
    async fn step(
        &mut self,
        before: Record,
        stepped: Stepped<'_>,
        now: StoreTime,
    ) -> Result<Written, Failure> {
        let (after, beside) = match stepped {
            Ok(stepped) => stepped,
            Err(why) => {
                let found = Box::new(self.found(before).await?);
                return Ok(Written::Refused { why, found });
            }
        };
        let policy = match writes::moves(&before, &after) {
            true => self.epoch_and_policy(&after.policy).await?.1,
            false => 0,
        };
        self.write(writes::change(&before, &after, policy, now)).await?;
        self.write(beside).await?;
        Ok(Written::Done(Box::new(after)))
    }

    async fn theirs(&mut self, there: Record) -> Result<Claimed, Failure> {
        Ok(Claimed::Theirs(Box::new(self.found(there).await?)))
    }

    async fn found(&mut self, record: Record) -> Result<Found, Failure> {
        let now = self.now();
        let response = match Body::of(&record, now) {
            Some(kind) => {
                let values = [record.claim.0.into(), kind.code().into()];
                self.first(sql::BODY, values, rows::response).await?
            }
            None => None,
        };
        Ok(writes::found(record, response, now))
    }

    async fn by_id(&mut self, id: &RecordId) -> Result<Option<Record>, Failure> {
        self.first(sql::RECORD_BY_ID, [id.as_bytes().into()], rows::record).await
    }

    /// The record that this transaction has written last is as it left it.
    async fn by_ownership(&mut self, by: &Ownership) -> Result<Option<Record>, Failure> {
        match &self.record {
            Some(record) if record.id == by.id => Ok(Some(record.clone())),
            _ => self.by_id(&by.id).await,
        }
    }

    /// What attempts are made under, and the number that a policy has in this store.
    async fn epoch_and_policy(&mut self, digest: &PolicyDigest) -> Result<(u32, i64), Failure> {
        let read = |row: &SqliteRow| Ok((rows::number(row, 0)?, rows::optional(row, 1)?));
        let read = self.first(sql::EPOCH_AND_POLICY, [(&digest.0).into()], read).await?;
        let Some((epoch, policy)) = read else {
            return Err(Failure::Unreadable("the store's own row is missing".to_owned()));
        };
        if let Some(policy) = policy {
            return Ok((epoch, policy));
        }
        let values = [(&digest.0).into()];
        match self.insert(sql::ADD_POLICY_NUMBER, values).await? {
            Some(policy) => Ok((epoch, policy)),
            None => Err(Failure::Unreadable("a policy's number cannot be made".to_owned())),
        }
    }

    /// Inserts a row, if the statement's conflict rule lets it; answers with its number.
    async fn insert<'v>(
        &mut self,
        sql: &'static str,
        values: impl IntoIterator<Item = Value<'v>>,
    ) -> Result<Option<i64>, Failure> {
        let done = statement(sql, values).execute(&mut *self.tx).await?;
        Ok((done.rows_affected() > 0).then(|| done.last_insert_rowid()))
    }

    async fn write(&mut self, writes: Vec<Write<'_>>) -> Result<(), Failure> {
        for write in writes {
            let one = write.one;
            let rows = write.statement().execute(&mut *self.tx).await?.rows_affected();
            if one && rows != 1 {
                return Err(writes::touched(rows).into());
            }
        }
        Ok(())
    }

    async fn first<'v, T>(
        &mut self,
        sql: &'static str,
        values: impl IntoIterator<Item = Value<'v>>,
        read: impl FnOnce(&SqliteRow) -> Result<T, sqlx::Error>,
    ) -> Result<Option<T>, Failure> {
        let row = statement(sql, values).fetch_optional(&mut *self.tx).await?;
        Ok(row.as_ref().map(read).transpose()?)
    }

    fn now(&self) -> StoreTime {
        self.home.clock().now()
    }
}

fn failed(failure: Failure) -> StoreError {
    let error = failure.into_error();
    telemetry::failed(&error);
    error
}
