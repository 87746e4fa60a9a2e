//! A store that went back in time, or is another one, admits nothing.

use std::sync::Arc;

use hapax_core::{AdvanceReason, NewClaim, ObservedEnd, OnUnknown, Record, StoreTime};

use crate::{
    Clock, StandingState, Store, StoreError,
    conformance::{Ability, Harness, given::*, race::race},
};

/// After a restore every write of a node that wrote since is refused as regressed before it does
/// anything, and so are all later ones; a restarted node goes on (17; pitfalls 30, 49).
pub async fn a_store_that_went_back_admits_nothing<H: Harness>(mut harness: H) {
    for write in Write::ALL {
        let node = first_node(&harness).await;
        let given = Given::on(&node, &harness).await;
        let kept = harness.keep_moment().await;
        if !Ability::GoBack.is_there::<H>(kept) {
            return;
        }
        let lost = claimed(&node).await;
        harness.go_back().await.expect("the harness can go back");
        assert_eq!(try_found(&node, lost.id).await, None, "the harness did not go back");
        given.refuses(write, &node).await;
        drop(node);
        let node = harness.reopen().await;
        given.assert_untouched(write, &node).await;
        node.claim(given.claim.clone()).await.ours();
    }
}

/// An idle node notices at its next heartbeat (17).
pub async fn a_heartbeat_notices_a_store_that_went_back<H: Harness>(mut harness: H) {
    let node = first_node(&harness).await;
    let kept = harness.keep_moment().await;
    if !Ability::GoBack.is_there::<H>(kept) {
        return;
    }
    node.beat().await.expect("a heartbeat succeeds");
    harness.go_back().await.expect("the harness can go back");
    node.beat().await.regressed();
    assert_regressed(&node);
}

/// In another incarnation of the data every write of the node is refused as regressed; a restarted
/// node goes on (18).
pub async fn another_incarnation_is_noticed<H: Harness>(mut harness: H) {
    for write in Write::ALL {
        let node = first_node(&harness).await;
        let given = Given::on(&node, &harness).await;
        let changed = harness.change_incarnation().await;
        if !Ability::ChangeIncarnation.is_there::<H>(changed) {
            return;
        }
        given.refuses(write, &node).await;
        drop(node);
        let node = harness.reopen().await;
        given.assert_untouched(write, &node).await;
        node.claim(given.claim.clone()).await.ours();
    }
}

/// A lost answer is resolved by issuing the write again in the same incarnation only (7).
pub async fn a_lost_answer_is_not_resolved_by_another_incarnation<H: Harness>(mut harness: H) {
    let node = first_node(&harness).await;
    let (record, claim) = (executing(&node).await, a_claim());
    let lost = harness.lose_next_answer(false).await;
    if !Ability::LoseAnswers.is_there::<H>(lost) {
        return;
    }
    node.claim(claim.clone()).await.lost();
    let changed = harness.change_incarnation().await;
    if !Ability::ChangeIncarnation.is_there::<H>(changed) {
        return;
    }
    node.claim(claim).await.regressed();
    node.settle(record.ownership(), success()).await.regressed();
    assert_regressed(&node);
}

/// Each node has a mark of its own: nodes that write by turns or at once do not take each other
/// for a regression (17).
pub async fn nodes_do_not_disturb_each_others_marks<H: Harness>(mut harness: H) {
    let nodes = two_nodes(&mut harness).await;
    for turn in [0, 1, 1, 0, 0, 1] {
        executing(&nodes[turn]).await;
        nodes[turn].beat().await.expect("a heartbeat succeeds");
    }
    let writers = (0..32).map(|number| {
        let node = nodes[number % 2].clone();
        async move {
            succeeded(&node).await;
            node.beat().await
        }
    });
    assert!(race(writers).await.iter().all(Result::is_ok));
    for node in &nodes {
        assert_eq!(node.standing(), StandingState::Ready);
    }
}

/// A restarted process goes on with the same data: what was stored is there, and an owner from
/// before is still the owner.
pub async fn reopening_continues<H: Harness>(mut harness: H) {
    let node = first_node(&harness).await;
    let (done, running) = (succeeded(&node).await, executing(&node).await);
    let before = found(&node, done.id).await;
    drop(node);
    let node = harness.reopen().await;
    assert_eq!(node.standing(), StandingState::Ready);
    assert_eq!(found(&node, done.id).await, before);
    assert_eq!(node.claim(NewClaim { id: done.id, ..a_claim() }).await.theirs(), before);
    node.renew(running.ownership(), LEASE).await.done();
    node.settle(running.ownership(), success()).await.done();
}

/// A node that joins another one's store does not end the other's standing, and a restarted one
/// does not either.
pub async fn a_node_may_come_and_go<H: Harness>(mut harness: H) {
    let [first, second] = two_nodes(&mut harness).await;
    executing(&second).await;
    drop(first);
    let first = harness.reopen().await;
    executing(&first).await;
    executing(&second).await;
    assert_eq!(second.standing(), StandingState::Ready);
    assert_eq!(first.standing(), StandingState::Ready);
}

/// Records on which every write would succeed, were the store not another one.
struct Given {
    claim: NewClaim,
    abandoned: Record,
    stub: Record,
    unknown: Record,
    claimed: Record,
    executing: Record,
    between: Record,
    within: Record,
    interrupted: Record,
    now: StoreTime,
}

impl Given {
    async fn on<H: Harness>(node: &Arc<dyn Store>, harness: &H) -> Self {
        let abandoned = claimed(node).await;
        let executing = executing(node).await;
        harness.clock().advance(LEASE);
        Self {
            claim: a_claim(),
            abandoned,
            stub: released(node).await,
            unknown: uncertain(node).await,
            claimed: claimed(node).await,
            executing,
            between: executing_with(node, &["first"]).await,
            within: begun(node, &executing_with(node, &[]).await, once("first")).await,
            interrupted: interrupted_after(node, &["first"]).await,
            now: harness.clock().now(),
        }
    }

    async fn refuses(&self, write: Write, node: &Arc<dyn Store>) {
        let issued = self.issue(write, node).await;
        assert!(
            matches!(issued, Err(StoreError::Regressed { .. })),
            "{write:?} came to {issued:?}, not to Regressed"
        );
        assert_regressed(node);
        node.beat().await.regressed();
        node.claim(a_claim()).await.regressed();
    }

    async fn assert_untouched(&self, write: Write, node: &Arc<dyn Store>) {
        let records = [
            &self.abandoned,
            &self.stub,
            &self.unknown,
            &self.claimed,
            &self.executing,
            &self.between,
            &self.within,
            &self.interrupted,
        ];
        for before in records {
            assert_eq!(found(node, before.id).await.record, *before, "{write:?} was not refused");
        }
        assert_eq!(course(node, self.between.claim).await, [is_done("first")], "{write:?}");
        assert_eq!(course(node, self.within.claim).await, [in_doubt("first")], "{write:?}");
        assert_eq!(try_found(node, self.claim.id).await, None, "{write:?} was not refused");
    }

    async fn issue(&self, write: Write, node: &Arc<dyn Store>) -> Result<(), StoreError> {
        let permission = AdvanceReason::Resend { before: self.now.after(HOUR) };
        let admitted = self.executing.ownership();
        match write {
            Write::Claim => node.claim(self.claim.clone()).await.map(drop),
            Write::ClaimAll => node.claim_all(vec![self.claim.clone()]).await.map(drop),
            Write::TakeOver => {
                node.advance(next(&self.abandoned, AdvanceReason::LeaseOver)).await.map(drop)
            }
            Write::ClaimOfStub => {
                node.advance(next(&self.stub, AdvanceReason::Released)).await.map(drop)
            }
            Write::Resend => node.advance(next(&self.unknown, permission)).await.map(drop),
            Write::Resume => {
                let resume = next_by_steps(&self.interrupted, AdvanceReason::Resume);
                node.advance(resume).await.map(drop)
            }
            Write::BeginStep => {
                let step = once("second");
                node.begin_step(self.between.ownership(), step, LEASE).await.map(drop)
            }
            Write::EndStep => {
                let (name, end) = (step_name("first"), done_with("first"));
                node.end_step(self.within.ownership(), name, end, LEASE).await.map(drop)
            }
            Write::Doubt => node.doubt(self.executing.id, self.executing.seen()).await.map(drop),
            Write::Admit => node.admit(self.claimed.ownership(), LEASE, None).await.map(drop),
            Write::Renew => node.renew(admitted, LEASE).await.map(drop),
            Write::Settle => node.settle(admitted, success()).await.map(drop),
            Write::Release => node.settle(admitted, NOT_APPLIED).await.map(drop),
            Write::SettleUnknown => node.settle(admitted, UNKNOWN).await.map(drop),
            Write::Sweep => node.sweep(self.now, 10).await.map(drop),
            Write::Arrive => {
                node.arrive(an_arrival(self.claim.id, intent(1), OnUnknown::Hold)).await.map(drop)
            }
            Write::Finish => node.finish(self.claim.id, ObservedEnd::Unknown).await,
        }
    }
}

/// The writes that a node's mark guards.
#[derive(Clone, Copy, Debug)]
enum Write {
    Claim,
    ClaimAll,
    TakeOver,
    ClaimOfStub,
    Resend,
    Resume,
    BeginStep,
    EndStep,
    Doubt,
    Admit,
    Renew,
    Settle,
    Release,
    SettleUnknown,
    Sweep,
    Arrive,
    Finish,
}

impl Write {
    const ALL: [Self; 17] = [
        Self::Claim,
        Self::ClaimAll,
        Self::TakeOver,
        Self::ClaimOfStub,
        Self::Resend,
        Self::Resume,
        Self::BeginStep,
        Self::EndStep,
        Self::Doubt,
        Self::Admit,
        Self::Renew,
        Self::Settle,
        Self::Release,
        Self::SettleUnknown,
        Self::Sweep,
        Self::Arrive,
        Self::Finish,
    ];
}

#[track_caller]
fn assert_regressed(node: &Arc<dyn Store>) {
    let standing = node.standing();
    assert!(matches!(standing, StandingState::Regressed { .. }), "the standing is {standing:?}");
}
