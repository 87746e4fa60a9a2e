//! What is read, and what is kept beside the records.

use hapax_core::{
    Admission, ClaimNumber, Found, NewClaim, Observed, ObservedEnd, OperationName, OwnState,
    PolicyDigest, RecordId, State, Would,
};

use super::{Broken, Bug};
use crate::{
    HistoryEntry, Inspect, ListFilter, Listed, Lookup, Observation, Observations, Policies, Reply,
    SecretPin, Secrets, Standing, StandingState,
};

impl Lookup for Broken {
    fn find(&self, id: RecordId) -> Reply<'_, Option<Found>> {
        Box::pin(async move {
            let mut found = self.store.find(id).await?;
            match (self.bug, &mut found) {
                (Some(Bug::FindIsCached), _) => {
                    return Ok(self.cache.lock().entry(id).or_insert(found).clone());
                }
                (Some(Bug::FindRunsAhead), Some(found)) => {
                    found.record.own_state = OwnState::Executing;
                }
                _ => {}
            }
            Ok(found)
        })
    }
}

impl Policies for Broken {
    fn remember_policy(
        &self,
        digest: PolicyDigest,
        operation: OperationName,
        text: String,
    ) -> Reply<'_, ()> {
        let trimmed = text.replace(' ', "");
        let text = if self.has(Bug::PolicyIsTrimmed) { trimmed } else { text };
        self.store.remember_policy(digest, operation, text)
    }

    fn policy(&self, digest: PolicyDigest) -> Reply<'_, Option<String>> {
        self.store.policy(digest)
    }
}

impl Secrets for Broken {
    fn pinned_secret(&self, version: u32) -> Reply<'_, Option<[u8; 16]>> {
        self.store.pinned_secret(version)
    }

    fn pin_secret(&self, version: u32, fingerprint: [u8; 16]) -> Reply<'_, SecretPin> {
        Box::pin(async move {
            let pin = self.store.pin_secret(version, fingerprint).await?;
            if self.has(Bug::SecretIsReplaced) {
                self.write(|data, _| data.secrets.insert(version, fingerprint))?;
            }
            Ok(pin)
        })
    }
}

impl Inspect for Broken {
    fn list(&self, mut filter: ListFilter) -> Reply<'_, Vec<Listed>> {
        Box::pin(async move {
            match (self.bug, &mut filter.before) {
                (Some(Bug::ListIgnoresTheOperation), _) => filter.operation = None,
                (Some(Bug::PagesOverlap), Some(before)) => before.0 += 1,
                _ => {}
            }
            let mut listed = self.store.list(filter).await?;
            match self.bug {
                Some(Bug::ListIsOldestFirst) => listed.reverse(),
                Some(Bug::ListedOperationIsUnknown) => {
                    listed.iter_mut().for_each(|row| row.operation = None);
                }
                Some(Bug::ListedStateIsOld) => {
                    listed.iter_mut().filter(|row| row.state == State::Tombstone).for_each(|row| {
                        row.state = row.record.state(row.record.created);
                    });
                }
                _ => {}
            }
            Ok(listed)
        })
    }

    fn operations(&self) -> Reply<'_, Vec<OperationName>> {
        Box::pin(async move {
            let mut operations = self.store.operations().await?;
            if self.bug == Some(Bug::OperationsAreThoseOfTheLastPolicy) {
                operations.truncate(1);
            }
            Ok(operations)
        })
    }

    fn history(&self, claim: ClaimNumber) -> Reply<'_, Vec<HistoryEntry>> {
        self.store.history(claim)
    }
}

impl Observations for Broken {
    fn arrive(&self, observation: Observation) -> Reply<'_, Would> {
        Box::pin(async move {
            let claim = NewClaim {
                id: observation.id,
                owner: hapax_core::Owner::from_bytes([0; 16]),
                fingerprint: observation.fingerprint,
                policy: PolicyDigest([0; 32]),
                lease: observation.timeout,
                admission: Admission::WithClaim,
                secret_version: 1,
            };
            if self.has(Bug::ObservationMakesARecord) {
                self.write(|data, now| data.claim(&claim, now))?;
            }
            if self.has(Bug::NoMark) || self.has(Bug::MarkOnClaimsOnly) {
                return self.unguarded(|data, now| data.observed.arrive(observation, now));
            }
            if self.has(Bug::ArrivalsAreForgotten) {
                self.store.shared.data.lock().observed = Default::default();
            }
            self.store.arrive(observation).await
        })
    }

    fn finish(&self, id: RecordId, end: ObservedEnd) -> Reply<'_, ()> {
        Box::pin(async move { self.write(|data, now| data.observed.finish(&id, end, now)) })
    }

    fn observed(&self, limit: usize) -> Reply<'_, Vec<Observed>> {
        self.store.observed(limit)
    }
}

impl Standing for Broken {
    fn beat(&self) -> Reply<'_, ()> {
        Box::pin(async move {
            match self.bug {
                Some(Bug::HeartbeatProvesNothing) => Ok(()),
                _ => self.guarded(|_, _| ()),
            }
        })
    }

    fn standing(&self) -> StandingState {
        match self.bug {
            Some(Bug::RegressionIsForgotten) => StandingState::Ready,
            _ => self.store.standing(),
        }
    }

    fn distrust(&self, reason: String) {
        self.store.distrust(reason);
    }
}
