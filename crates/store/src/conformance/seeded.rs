//! The suite is seen failing: each bug that is put into a store is noticed by the rules that
//! forbid it. A checker that was never seen failing proves nothing (pitfall 49).

use std::{pin::Pin, sync::Arc};

use hapax_core::RecordId;

use super::{Ability, Harness, Unsupported, rules};
use crate::{
    ManualClock, MemorySnapshot, MemoryStore, Store,
    memory::broken::{Broken, Bug},
};

type Run = fn(Seeded) -> Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! noticed {
    ($($bug:ident by $($rule:ident),+;)+) => {
        &[$($((Bug::$bug, stringify!($rule), |store| Box::pin(rules::$rule(store)))),+),+]
    };
}

/// Each bug with the rules that notice it.
const NOTICED: &[(Bug, &str, Run)] = noticed! {
    ReadThenInsert by one_of_many_copies_gets_a_new_key;
    ReadThenAdvance by one_of_many_takes_over_an_abandoned_claim,
        one_of_many_copies_gets_a_released_key,
        one_of_settle_release_and_takeover_ends_a_claim,
        one_of_settles_and_resends_ends_an_uncertain_attempt;
    SeenIsIgnored by a_takeover_repeats_everything_that_was_seen;
    LiveLeaseIsIgnored by nobody_takes_over_a_live_claim, a_renewal_extends_the_lease;
    NoLeaseIsFree by a_record_without_lease_data_is_locked;
    AbandonedExecutionIsFree by nobody_takes_over_an_execution;
    DoubtIgnoresTheLease by only_an_abandoned_execution_becomes_uncertain,
        a_renewal_extends_the_lease;
    DoubtsAnything by only_an_abandoned_execution_becomes_uncertain;
    AnyIntentTakesOver by a_changed_intent_takes_over_nothing_else;
    StubKeepsItsIntent by a_clean_stub_takes_a_new_intent;
    LaterAttemptTakesTheNewSecret by a_later_attempt_keeps_the_effect_secret;
    AdvanceInserts by an_advance_of_a_missing_record_says_that_it_is_gone;
    ClaimReplacesTheEnded by a_claim_of_a_known_key_changes_nothing,
        a_release_keeps_the_attempt_number;
    NumbersAreReused by claim_numbers_are_never_reused;
    TakeoverWithoutSlot by one_of_many_takes_over_an_abandoned_claim,
        a_resend_is_the_next_attempt_and_not_clean,
        one_of_settle_release_and_takeover_ends_a_claim;
    OneKnownKeyTakesAll by each_of_many_claims_stands_for_itself;
    AnswersComeInTheOrderOfIds by each_of_many_claims_stands_for_itself;
    ManyAreReadThenInserted by each_of_many_claims_stands_for_itself,
        each_key_of_many_batches_goes_to_one;
    OwnerIsNotCompared by a_paused_worker_is_fenced_from_steps,
        another_owner_of_the_same_attempt_is_fenced;
    OnlyTheIdIsCompared by a_paused_worker_is_fenced_from_steps,
        another_owner_of_the_same_attempt_is_fenced,
        a_paused_worker_cannot_complete_its_successors_record,
        a_resent_attempt_cannot_be_settled_by_the_first;
    AdmissionIsRepeated by admission_begins_the_execution_once;
    UncertainIsAdmitted by an_uncertain_record_is_not_admitted;
    UncertainIsRenewed by a_renewal_of_an_uncertain_or_ended_record_is_refused;
    RenewalIsNotStored by a_renewal_extends_the_lease, an_admission_or_renewal_issued_again_is_done;
    MissingIsMade by a_step_of_a_missing_record_says_that_it_is_missing,
        a_write_to_a_missing_record_says_that_it_is_missing;
    OutcomeIsOverwritten by an_outcome_is_final;
    LateSettleIsFenced by a_late_settle_of_an_uncertain_attempt_is_welcome,
        a_late_end_of_a_step_is_welcome;
    ReleaseDeletes by a_release_keeps_the_attempt_number, a_bare_claim_can_be_released;
    RefusalReleases by a_release_forgets_the_steps,
        a_release_needs_every_attempt_proven_not_applied;
    BareClaimTakesAnOutcome by a_bare_claim_has_no_outcome;
    SettleAfterTakeoverCounts by a_paused_worker_cannot_complete_its_successors_record,
        one_of_settles_and_resends_ends_an_uncertain_attempt;
    KeptIsAlwaysTrue by an_outcome_says_what_it_is;
    RepeatedSettleCountsAnew by an_outcome_is_final, a_settle_issued_again_comes_to_the_same_ending;
    ResendIsClean by a_resumed_execution_keeps_its_steps,
        a_resend_is_the_next_attempt_and_not_clean,
        a_release_needs_every_attempt_proven_not_applied;
    ResendPermissionLasts by a_resend_is_not_claimed_after_its_permission_ended;
    AdmissionTrustsTheClaim by a_resend_is_not_admitted_after_its_permission_ended;
    TakeoverCleans by a_takeover_of_an_unclean_claim_stays_unclean;
    AnythingIsResent by only_an_uncertain_record_is_resent;
    FirstStepDoesNotAdmit by the_first_step_admits;
    StepsBeginTogether by no_step_begins_beside_one_in_doubt,
        a_step_in_doubt_is_begun_again_within_its_permission;
    EndedStepIsBegunAgain by an_ended_step_is_not_begun_again;
    StepEndIsOverwritten by an_ended_step_is_not_begun_again;
    StepNamesIgnoreCase by steps_read_back_exactly_and_in_order;
    StepVersionIsLost by steps_read_back_exactly_and_in_order;
    StepsAreSorted by steps_read_back_exactly_and_in_order;
    NotAppliedIsDone by a_step_not_applied_is_as_if_not_begun;
    WholeTakesSteps by a_record_judged_as_a_whole_takes_no_steps;
    StepLeavesTheLease by a_step_extends_the_lease;
    RepeatedStepIsRefused by a_step_issued_again_is_done_once,
        an_end_issued_again_later_ends_nothing_else;
    RepeatedEndEndsAnother by an_end_issued_again_later_ends_nothing_else;
    BeginningsCountAnew by a_step_issued_again_is_done_once,
        a_step_in_doubt_is_begun_again_within_its_permission;
    StepsAreUnguarded by a_store_that_went_back_admits_nothing, another_incarnation_is_noticed;
    AdvanceForgetsSteps by a_resumed_execution_keeps_its_steps;
    DoubtIsResumed by only_an_accounted_execution_is_resumed;
    ResendEndsTheDoubt by a_step_in_doubt_is_begun_again_within_its_permission;
    StepPermissionLasts by a_step_in_doubt_is_begun_again_within_its_permission;
    FailureIgnoresDoubt by a_failure_needs_its_steps_accounted_for;
    ReleaseKeepsSteps by a_release_forgets_the_steps;
    StepsSurvive by steps_are_swept_with_the_outcome;
    UnkeptKeepsItsSteps by steps_are_swept_with_the_outcome;
    LiveExecutionsAreDoubted by an_abandoned_execution_is_noticed;
    LaterAttemptsAreNotNoticed by an_abandoned_execution_is_noticed;
    DueOfAnyOperation by a_due_record_is_taken_by_one;
    DueIsTakenTwice by a_due_record_is_taken_by_one;
    HoldsLast by a_due_record_is_taken_by_one, a_verdict_needs_the_hold_it_was_made_under;
    AnybodyPutsOff by what_is_put_off_is_due_later;
    PutOffIsDueAtOnce by what_is_put_off_is_due_later;
    VerdictIgnoresTheAttempt by a_verdict_about_the_past_changes_nothing;
    VerdictOverwrites by a_verdict_about_the_past_changes_nothing;
    VerdictIgnoresTheHold by a_verdict_needs_the_hold_it_was_made_under;
    RepeatedVerdictIsRefused by a_verdict_issued_again_is_done_once;
    VerdictForgetsTheReason by a_verdict_ends_an_uncertain_record;
    VerdictStays by a_judged_outcome_is_swept_when_it_is_over;
    EndingIsAnybodys by an_ending_belongs_to_who_wrote_it;
    ProofIsDoneTwice by proof_settles_what_was_freed;
    ProofReplacesTheNext by proof_that_comes_too_late_is_noted;
    ProofTakesAnyIntent by proof_that_comes_too_late_is_noted;
    LateProofIsForgotten by proof_that_comes_too_late_is_noted;
    ClosingFencesNothing by closing_fences_the_earlier_attempts;
    BroughtInReplaces by what_ran_unprotected_does_not_replace_what_is_known;
    BroughtInBeginsNow by what_ran_unprotected_has_a_record_afterwards;
    BroughtInTwice by what_ran_unprotected_is_brought_in_once;
    RunsAreOver by what_runs_unprotected_is_executing_until_its_end;
    BesideStaysClean by a_success_unprotected_is_the_outcome_where_there_is_none;
    SettledAreInDoubt by what_is_uncertain_is_told_by_operation;
    OwnClaimIsNotRecognised by a_claim_issued_again_is_ours, many_claims_issued_again_are_ours;
    OwnAdvanceIsNotRecognised by an_advance_issued_again_is_ours;
    RepeatedSettleIsFenced by a_settle_issued_again_comes_to_the_same_ending;
    AnyFirstAttemptIsOwn by a_claim_issued_again_does_not_take_anothers_for_its_own,
        one_of_many_copies_gets_a_new_key;
    NoMark by a_store_that_went_back_admits_nothing, a_heartbeat_notices_a_store_that_went_back,
        another_incarnation_is_noticed;
    MarkOnClaimsOnly by a_store_that_went_back_admits_nothing, another_incarnation_is_noticed;
    RegressionIsForgotten by a_store_that_went_back_admits_nothing;
    HeartbeatProvesNothing by a_heartbeat_notices_a_store_that_went_back;
    LostAnswerIsARegression by lost_answers_are_no_regression;
    OneMarkForAll by nodes_do_not_disturb_each_others_marks, a_node_may_come_and_go;
    IncarnationIsIgnored by another_incarnation_is_noticed,
        a_lost_answer_is_not_resolved_by_another_incarnation;
    RestartForgets by reopening_continues;
    OwnClockIsIgnored by a_sweep_needs_both_clocks;
    StoreClockIsIgnored by a_sweep_needs_both_clocks;
    SweepIsEarly by a_body_is_dropped_when_its_retention_is_over,
        a_record_is_purged_when_its_tombstone_is_over,
        observations_are_swept_when_they_are_over;
    SweepHasNoLimit by a_sweep_goes_in_steps;
    UncertainIsSwept by nothing_unsettled_is_ever_swept;
    OldEndingCounts by nothing_unsettled_is_ever_swept, a_stub_is_kept_for_its_tombstone;
    EndingIsPurgedFirst by steps_are_purged_with_their_record,
        a_record_is_purged_when_its_tombstone_is_over;
    BodySurvives by a_body_is_dropped_when_its_retention_is_over;
    HeadersAreFolded by an_answer_reads_back_byte_for_byte;
    EmptyBodyIsNone by an_answer_reads_back_byte_for_byte;
    ObservedAnswerStays by an_observed_answer_is_replaced_by_the_outcome;
    FindIsCached by a_find_is_never_before_the_acknowledged_nor_ahead_of_the_written,
        an_outcome_becomes_a_tombstone_when_its_retention_is_over;
    FindRunsAhead by a_find_is_never_before_the_acknowledged_nor_ahead_of_the_written,
        finding_claiming_and_listing_agree;
    ListIsOldestFirst by a_list_is_newest_first_and_filtered, a_list_pages_without_gaps;
    ListIgnoresTheOperation by a_list_is_newest_first_and_filtered;
    OperationsAreThoseOfTheLastPolicy by every_operation_with_a_policy_is_known;
    ListedOperationIsUnknown by a_record_belongs_to_its_policys_operation;
    ListedStateIsOld by finding_claiming_and_listing_agree;
    PagesOverlap by a_list_pages_without_gaps;
    PolicyIsTrimmed by a_policy_reads_back_exactly;
    SecretIsReplaced by another_effect_secret_is_noticed;
    ArrivalsAreForgotten by arrivals_are_judged_as_enforcing_would,
        observations_are_counted_and_read_back;
    ObservationMakesARecord by observing_makes_no_record;
    ObservationsStay by observations_are_swept_when_they_are_over;
};

#[tokio::test]
async fn each_bug_is_noticed_by_the_rules_that_forbid_it() {
    let mut unnoticed = Vec::new();
    for (bug, rule, run) in NOTICED {
        run(Seeded::with(None)).await;
        let end = tokio::spawn(run(Seeded::with(Some(*bug)))).await;
        if !end.is_err_and(|error| error.is_panic()) {
            unnoticed.push((bug, rule));
        }
    }
    assert_eq!(unnoticed, []);
}

#[test]
fn every_rule_is_seen_failing() {
    let unseen = |rule: &&&str| NOTICED.iter().all(|(_, noticing, _)| noticing != *rule);
    assert_eq!(LISTED.iter().filter(unseen).collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[test]
fn every_rule_is_listed() {
    let files = [
        include_str!("rules/claiming.rs"),
        include_str!("rules/claiming_many.rs"),
        include_str!("rules/ending.rs"),
        include_str!("rules/keeping.rs"),
        include_str!("rules/lost_answers.rs"),
        include_str!("rules/observing.rs"),
        include_str!("rules/owning.rs"),
        include_str!("rules/proving.rs"),
        include_str!("rules/reading.rs"),
        include_str!("rules/reconciling.rs"),
        include_str!("rules/regressing.rs"),
        include_str!("rules/resending.rs"),
        include_str!("rules/resuming.rs"),
        include_str!("rules/stepping.rs"),
        include_str!("rules/sweeping.rs"),
    ];
    let rules = files.iter().flat_map(|file| file.split("pub async fn ").skip(1));
    let mut written = rules.filter_map(|rest| rest.split('<').next()).collect::<Vec<_>>();
    let mut listed = LISTED.to_vec();
    written.sort_unstable();
    listed.sort_unstable();
    assert_eq!(written, listed);
}

macro_rules! names {
    ($($rule:ident)+) => { &[$(stringify!($rule)),+] };
}

const LISTED: &[&str] = crate::for_each_rule! { [names] };

#[tokio::test]
async fn a_rule_is_not_applicable_only_where_the_harness_says_so() {
    rules::lost_answers_are_no_regression(Unable::<true>(Seeded::with(None))).await;
    let silent = rules::lost_answers_are_no_regression(Unable::<false>(Seeded::with(None)));
    assert!(tokio::spawn(silent).await.is_err(), "an inability that is not named is a failure");
}

struct Seeded {
    clock: Arc<ManualClock>,
    node: Arc<Broken>,
    bug: Option<Bug>,
    kept: Option<MemorySnapshot>,
}

impl Seeded {
    fn with(bug: Option<Bug>) -> Self {
        let clock = Arc::new(ManualClock::new());
        let node = Arc::new(Broken::new(MemoryStore::new(clock.clone()), bug));
        Self { clock, node, bug, kept: None }
    }
}

impl Harness for Seeded {
    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn node(&self) -> Arc<dyn Store> {
        self.node.clone()
    }

    async fn second_node(&mut self) -> Arc<dyn Store> {
        Arc::new(Broken::new(self.node.store.node(), self.bug))
    }

    async fn reopen(&mut self) -> Arc<dyn Store> {
        let store = match self.bug {
            Some(Bug::RestartForgets) => MemoryStore::new(self.clock.clone()),
            _ => self.node.store.node(),
        };
        self.node = Arc::new(Broken::new(store, self.bug));
        self.node()
    }

    async fn keep_moment(&mut self) -> Result<(), Unsupported> {
        self.kept = Some(self.node.store.snapshot());
        Ok(())
    }

    async fn go_back(&mut self) -> Result<(), Unsupported> {
        self.node.store.restore(self.kept.take().ok_or(Unsupported)?);
        Ok(())
    }

    async fn change_incarnation(&mut self) -> Result<(), Unsupported> {
        self.node.store.change_incarnation();
        Ok(())
    }

    async fn lose_next_answer(&mut self, committed: bool) -> Result<(), Unsupported> {
        self.node.store.lose_next_answer(committed);
        Ok(())
    }

    async fn erase_lease(&mut self, id: RecordId) -> Result<(), Unsupported> {
        self.node.store.erase_lease(id);
        Ok(())
    }
}

/// A harness that can do nothing special, and says so or not.
struct Unable<const SAYS_SO: bool>(Seeded);

impl<const SAYS_SO: bool> Harness for Unable<SAYS_SO> {
    const CANNOT: &'static [Ability] = if SAYS_SO {
        &[Ability::GoBack, Ability::ChangeIncarnation, Ability::LoseAnswers, Ability::EraseLease]
    } else {
        &[]
    };

    fn clock(&self) -> &ManualClock {
        self.0.clock()
    }

    fn node(&self) -> Arc<dyn Store> {
        self.0.node()
    }

    async fn second_node(&mut self) -> Arc<dyn Store> {
        self.0.second_node().await
    }

    async fn reopen(&mut self) -> Arc<dyn Store> {
        self.0.reopen().await
    }
}
