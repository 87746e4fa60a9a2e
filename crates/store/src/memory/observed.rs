//! Observe mode's table, apart from the records.

use std::collections::HashMap;

use hapax_core::{Observed, ObservedEnd, RecordId, Retention, StoreTime, Would};

use crate::Observation;

#[derive(Clone, Default)]
pub(super) struct ObservedTable {
    rows: HashMap<RecordId, Row>,
    arrivals: u64,
}

#[derive(Clone)]
struct Row {
    observed: Observed,
    retention: Retention,
    /// Until when it is remembered: a tombstone's time after anything was last heard of it.
    until: StoreTime,
    /// The number of its last arrival, since clocks may stand still.
    last_arrival: u64,
}

impl ObservedTable {
    pub(super) fn arrive(&mut self, arrival: Observation, now: StoreTime) -> Would {
        let Observation { id, operation, keyed, fingerprint, timeout, rules, retention } = arrival;
        let lease_end = now.after(timeout);
        let until = now.after(retention.tombstone);
        self.arrivals += 1;
        if let Some(row) = self.rows.get_mut(&id) {
            (row.retention, row.until, row.last_arrival) = (retention, until, self.arrivals);
            return row.observed.arrive(fingerprint, now, lease_end, &rules, retention);
        }
        let observed = Observed::first(id, operation, keyed, fingerprint, now, lease_end);
        let last_arrival = self.arrivals;
        self.rows.insert(id, Row { observed, retention, until, last_arrival });
        Would::Execute
    }

    pub(super) fn finish(&mut self, id: &RecordId, end: ObservedEnd, now: StoreTime) {
        if let Some(row) = self.rows.get_mut(id) {
            row.observed.finish(end, now);
            row.until = now.after(row.retention.tombstone);
        }
    }

    pub(super) fn list(&self, limit: usize) -> Vec<Observed> {
        let mut rows = self.rows.values().collect::<Vec<_>>();
        rows.sort_unstable_by_key(|row| std::cmp::Reverse(row.last_arrival));
        rows.into_iter().take(limit).map(|row| row.observed.clone()).collect()
    }

    pub(super) fn sweep(&mut self, now: StoreTime, limit: usize) {
        let over = self.rows.iter().filter(|(_, row)| row.until <= now);
        let over = over.map(|(id, _)| *id).take(limit).collect::<Vec<_>>();
        over.iter().for_each(|id| {
            self.rows.remove(id);
        });
    }
}
