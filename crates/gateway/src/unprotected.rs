//! A request of an operation that passes while the store is not available: what is known of it, or
//! its way without a record.

use std::sync::Arc;

use hapax::{Answer, Sent, http::body::Buffered};
use hapax_core::{EffectId, StoreTime};
use http::{Response, request::Parts};

use crate::{
    answer_body::AnswerBody,
    keyed::{Carried, forward, outgoing},
    outage::{self, Outage, Passing},
    shared::Route,
    upstream::Upstream,
};

/// A request that may pass without a record.
pub(crate) struct WithoutRecord {
    pub(crate) outage: Arc<Outage>,
    pub(crate) passing: Passing,
    pub(crate) route: Route,
    pub(crate) upstream: Upstream,
    pub(crate) head: Arc<Parts>,
    pub(crate) buffered: Arc<Buffered>,
}

/// What it came to.
pub(crate) enum Passed {
    /// The service answered just now.
    Live(Response<AnswerBody>),
    /// It is answered from what is known of it.
    Known(Answer<Response<AnswerBody>>),
    /// The answer of a run without a record, which has none yet.
    Kept(Response<AnswerBody>),
}

impl WithoutRecord {
    /// What it gets without the store being asked to claim it: it ran and has no record yet, or the
    /// store is known to fail. `None`: it takes the usual way.
    pub(crate) async fn at_once(&self) -> Option<Passed> {
        if let Some(known) = self.outage.known(&self.passing) {
            return Some(match known {
                Ok(response) => Passed::Kept(outage::kept(response)),
                Err(problem) => Passed::Known(Answer::Problem(problem)),
            });
        }
        if self.outage.is_on() { Some(self.pass().await) } else { None }
    }

    /// Sends it without a record. Where the store can be read, what it knows of the key goes before.
    pub(crate) async fn pass(&self) -> Passed {
        if let Some(known) = self.outage.recall(&self.passing).await {
            return Passed::Known(known);
        }
        let (route, upstream) = (self.route.clone(), self.upstream.clone());
        let (head, buffered) = (Arc::clone(&self.head), Arc::clone(&self.buffered));
        let forward = move |effect_id: EffectId, now: StoreTime| async move {
            let deadline = route.operation.policy().deadline.map(|deadline| now.after(deadline));
            let carried = Carried { effect_id, attempt: None, deadline };
            let request = outgoing(&route, (*head).clone(), carried, &buffered);
            forward(&upstream, &route, request, &Sent::default(), effect_id).await
        };
        match self.outage.pass(self.passing.clone(), forward).await {
            Ok(live) => Passed::Live(live),
            Err(problem) => Passed::Known(Answer::Problem(problem)),
        }
    }
}
