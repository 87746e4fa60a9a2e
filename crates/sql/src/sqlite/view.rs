//! A connection inside a transaction, as operations see it.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    ops::Deref,
};

use hapax_core::{PolicyDigest, StoreTime};
use rusqlite::{Connection, OptionalExtension, Params, Row, params_from_iter};

use super::{
    error::Failure,
    sql,
    writes::{self, Write},
};

/// The store as one reading sees it.
pub(super) struct View<'c> {
    conn: &'c Connection,
    /// The store's time of the reading.
    pub(super) now: StoreTime,
}

impl<'c> View<'c> {
    pub(super) const fn new(conn: &'c Connection, now: StoreTime) -> Self {
        Self { conn, now }
    }

    /// The first row, if there is one.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, Failure> {
        Ok(self.conn.prepare_cached(sql)?.query_row(params, read).optional()?)
    }

    /// All rows.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Failure> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query_map(params, read)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

/// A transaction that holds the store's write lock: what is read in it stays true until its end.
pub(super) struct Tx<'c> {
    view: View<'c>,
    /// The epoch that attempts are made under.
    pub(super) epoch: u32,
    wrote: Cell<bool>,
    policies: &'c Policies,
}

/// The numbers of policies that are in the store for good: none is ever taken out.
#[derive(Default)]
pub(super) struct Policies(RefCell<HashMap<PolicyDigest, i64>>);

impl<'c> Tx<'c> {
    pub(super) const fn new(
        conn: &'c Connection,
        now: StoreTime,
        epoch: u32,
        policies: &'c Policies,
    ) -> Self {
        Self { view: View::new(conn, now), epoch, wrote: Cell::new(false), policies }
    }

    /// The number of a policy, if it has one.
    pub(super) fn policy_number(&self, digest: &PolicyDigest) -> Result<Option<i64>, Failure> {
        let known = self.policies.0.borrow().get(digest).copied();
        if known.is_some() {
            return Ok(known);
        }
        let found = self.first(sql::POLICY_NUMBER, [&digest.0], |row| row.get(0))?;
        // What this transaction wrote may yet be undone.
        if let Some(number) = found
            && !self.wrote()
        {
            self.policies.0.borrow_mut().insert(*digest, number);
        }
        Ok(found)
    }

    /// Whether anything was written: if not, there is nothing to commit.
    pub(super) fn wrote(&self) -> bool {
        self.wrote.get()
    }

    /// Has the transaction committed, and with it the mark moved on, whatever else it does.
    pub(super) fn touch(&self) {
        self.wrote.set(true);
    }

    /// Executes a statement; answers with the number of rows that it touched.
    pub(super) fn execute(&self, sql: &str, params: impl Params) -> Result<usize, Failure> {
        let rows = self.view.conn.prepare_cached(sql)?.execute(params)?;
        if rows > 0 {
            self.wrote.set(true);
        }
        Ok(rows)
    }

    /// Executes a statement whose condition was just read to hold: it must touch one row.
    pub(super) fn execute_one(&self, sql: &str, params: impl Params) -> Result<(), Failure> {
        match self.execute(sql, params)? {
            1 => Ok(()),
            rows => Err(writes::touched(rows).into()),
        }
    }

    /// Executes the statements of a write, in their order.
    pub(super) fn write(&self, writes: Vec<Write<'_>>) -> Result<(), Failure> {
        for Write { sql, values, one } in writes {
            if one {
                self.execute_one(sql, params_from_iter(values))?;
            } else {
                self.execute(sql, params_from_iter(values))?;
            }
        }
        Ok(())
    }

    /// Does work of several parts as a whole: where one part cannot read what is stored, none is
    /// done, and the rest of the transaction goes on.
    pub(super) fn in_one<T>(
        &self,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let control = |sql| self.view.conn.prepare_cached(sql)?.execute(()).map(drop);
        control(sql::BEGIN_PART)?;
        let done = work();
        match &done {
            // All of the transaction is rolled back.
            Err(Failure::Transaction(_)) => return done,
            Err(Failure::Unreadable(_)) => control(sql::UNDO_PART)?,
            Ok(_) => {}
        }
        control(sql::END_PART)?;
        done
    }

    /// Inserts a row, if the statement's conflict rule lets it; answers with its number.
    pub(super) fn insert(&self, sql: &str, params: impl Params) -> Result<Option<i64>, Failure> {
        let inserted = self.execute(sql, params)? > 0;
        Ok(inserted.then(|| self.view.conn.last_insert_rowid()))
    }
}

impl<'c> Deref for Tx<'c> {
    type Target = View<'c>;

    fn deref(&self) -> &View<'c> {
        &self.view
    }
}
