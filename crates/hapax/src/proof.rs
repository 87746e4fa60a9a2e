//! Proof that an effect exists, where the record says by now that it does not: an operator or a
//! closer has freed the key, and the answer came after it.

use hapax_core::{Found, OutcomeClass, Owner, Proof, Record, Settlement, Statement, WriteRefused};
use hapax_store::{StoreError, Written};
use tracing::{error, warn};

use crate::{Hapax, claim::Attempting};

impl Attempting {
    /// What a settle that was refused comes to: a success of this attempt is proof against a record
    /// that says by now that nothing was applied. Any other stays refused.
    pub(crate) async fn refused(
        &self,
        record: &Record,
        settlement: &Settlement,
        why: WriteRefused,
        found: Box<Found>,
    ) -> Result<Written, StoreError> {
        let Settlement::Outcome { class: OutcomeClass::Succeeded, status, response, retention } =
            settlement
        else {
            return Ok(Written::Refused { why, found });
        };
        let attempt = record.attempt;
        let proof = Proof {
            token: self.engine.token()?,
            of: record.ownership(),
            fingerprint: record.fingerprint,
            status: *status,
            response: response.clone(),
            retention: *retention,
            statement: Statement {
                actor: "hapax".to_owned(),
                reason: format!("attempt {attempt} was answered {status} after it was judged"),
            },
        };
        self.engine.prove(proof, why, found).await
    }
}

impl Hapax {
    /// Settles a record that denies an effect by proof of it, unless its key was used again. It
    /// refused something else before, for this reason.
    pub(crate) async fn prove(
        &self,
        proof: Proof,
        why: WriteRefused,
        found: Box<Found>,
    ) -> Result<Written, StoreError> {
        if !found.record.denies(&proof.of) {
            return Ok(Written::Refused { why, found });
        }
        let (record, seen) = (proof.of.id, proof.statement.reason.clone());
        let written = self.inner.store.prove(proof).await?;
        if let Written::Done(_) = &written {
            warn!(%record, %seen, "it was said not to be applied, and was: the proof is its outcome");
        } else {
            error!(
                %record, %seen,
                "it was said not to be applied, and was; its key was used again, so the effect may \
                 exist twice"
            );
        }
        Ok(written)
    }

    /// A fresh random token.
    pub(crate) fn token(&self) -> Result<Owner, StoreError> {
        self.inner.owners.give().map_err(|error| StoreError::Unavailable {
            reason: format!("no randomness for a token: {error}"),
        })
    }
}
