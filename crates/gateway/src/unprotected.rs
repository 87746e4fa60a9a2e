//! A request of an operation that passes while the store is not available: what is known of it, or
//! its way without a record.

use std::sync::Arc;

use hapax::{Answer, Recalled, Sent, http::body::Buffered};
use hapax_core::{Attempt, Problem};
use http::{Response, request::Parts};

use crate::{
    answer_body::AnswerBody,
    keyed::{Carried, forward, outgoing},
    outage::{Claiming, Identity, Outage, Passing},
    shared::Route,
    upstream::Upstream,
};

/// A request that may pass without a record, or whose key may have done so.
pub(crate) struct WithoutRecord {
    pub(crate) outage: Arc<Outage>,
    pub(crate) passing: Passing,
    pub(crate) route: Route,
    pub(crate) upstream: Upstream,
    pub(crate) head: Arc<Parts>,
    pub(crate) buffered: Arc<Buffered>,
}

/// How it goes on.
pub(crate) enum Goes {
    /// It has its answer.
    Passed(Box<Passed>),
    /// The usual way. Whatever executes for it holds this.
    Claims(Arc<Claiming>),
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
    /// store is known to fail. Else it takes the usual way.
    pub(crate) async fn begin(&self) -> Goes {
        if let Some(known) = self.outage.known(&self.passing) {
            return Goes::Passed(Box::new(from_memory(known)));
        }
        if self.route.passes() && self.outage.is_on() {
            return Goes::Passed(Box::new(self.pass().await));
        }
        match self.outage.claim(&self.passing) {
            Ok(claiming) => Goes::Claims(claiming),
            Err(known) => Goes::Passed(Box::new(from_memory(*known))),
        }
    }

    /// Sends it without a record. Where the store can be read, what it knows of the key goes before.
    pub(crate) async fn pass(&self) -> Passed {
        let attempt = match self.outage.recall(&self.passing).await {
            Recalled::Known(known) => return Passed::Known(known),
            Recalled::Free { next } => next,
            // No higher than whatever it will be.
            Recalled::Unread => Attempt::first(0),
        };
        let (route, upstream) = (self.route.clone(), self.upstream.clone());
        let (head, buffered) = (Arc::clone(&self.head), Arc::clone(&self.buffered));
        let forward = move |identity: Identity| async move {
            let Identity { effect_id, attempt, now } = identity;
            let deadline = route.operation.policy().deadline.map(|deadline| now.after(deadline));
            let carried = Carried { effect_id, attempt, deadline };
            let request = outgoing(&route, (*head).clone(), carried, &buffered);
            forward(&upstream, &route, request, &Sent::default(), effect_id).await
        };
        match self.outage.pass(self.passing.clone(), attempt, forward).await {
            Ok(live) => Passed::Live(live),
            Err(problem) => Passed::Known(Answer::Problem(problem)),
        }
    }
}

fn from_memory(known: Result<Response<AnswerBody>, Problem>) -> Passed {
    match known {
        Ok(response) => Passed::Kept(response),
        Err(problem) => Passed::Known(Answer::Problem(problem)),
    }
}
