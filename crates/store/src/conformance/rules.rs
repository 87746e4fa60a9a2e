//! The rules, each named as the promise it tests. The numbers in brackets are those of the record
//! protocol.

mod claiming;
mod claiming_many;
mod ending;
mod keeping;
mod lost_answers;
mod observing;
mod owning;
mod proving;
mod reading;
mod reconciling;
mod regressing;
mod resending;
mod resuming;
mod stepping;
mod sweeping;

pub use claiming::*;
pub use claiming_many::*;
pub use ending::*;
pub use keeping::*;
pub use lost_answers::*;
pub use observing::*;
pub use owning::*;
pub use proving::*;
pub use reading::*;
pub use reconciling::*;
pub use regressing::*;
pub use resending::*;
pub use resuming::*;
pub use stepping::*;
pub use sweeping::*;

/// Hands the names of all rules to a macro, behind what is passed on to it.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_rule {
    ([$($macro:tt)+] $($passed:tt)*) => {
        $($macro)+! {
            $($passed)*
            one_of_many_copies_gets_a_new_key
            one_of_many_copies_gets_a_released_key
            one_of_many_takes_over_an_abandoned_claim
            nobody_takes_over_a_live_claim
            nobody_takes_over_an_execution
            a_record_without_lease_data_is_locked
            a_takeover_repeats_everything_that_was_seen
            only_an_abandoned_execution_becomes_uncertain
            a_claim_of_a_known_key_changes_nothing
            an_advance_of_a_missing_record_says_that_it_is_gone
            a_clean_stub_takes_a_new_intent
            a_changed_intent_takes_over_nothing_else
            a_later_attempt_keeps_the_effect_secret
            claim_numbers_are_never_reused
            each_of_many_claims_stands_for_itself
            each_key_of_many_batches_goes_to_one
            many_claims_issued_again_are_ours
            another_owner_of_the_same_attempt_is_fenced
            a_paused_worker_cannot_complete_its_successors_record
            a_resent_attempt_cannot_be_settled_by_the_first
            admission_begins_the_execution_once
            a_renewal_extends_the_lease
            a_renewal_of_an_uncertain_or_ended_record_is_refused
            an_uncertain_record_is_not_admitted
            a_write_to_a_missing_record_says_that_it_is_missing
            one_of_settle_release_and_takeover_ends_a_claim
            one_of_settles_and_resends_ends_an_uncertain_attempt
            an_outcome_is_final
            a_late_settle_of_an_uncertain_attempt_is_welcome
            a_release_keeps_the_attempt_number
            a_bare_claim_can_be_released
            a_bare_claim_has_no_outcome
            an_outcome_says_what_it_is
            a_resend_is_the_next_attempt_and_not_clean
            only_an_uncertain_record_is_resent
            a_resend_is_not_claimed_after_its_permission_ended
            a_resend_is_not_admitted_after_its_permission_ended
            a_release_needs_every_attempt_proven_not_applied
            a_takeover_of_an_unclean_claim_stays_unclean
            the_first_step_admits
            no_step_begins_beside_one_in_doubt
            a_paused_worker_is_fenced_from_steps
            a_late_end_of_a_step_is_welcome
            an_ended_step_is_not_begun_again
            steps_read_back_exactly_and_in_order
            a_step_not_applied_is_as_if_not_begun
            a_record_judged_as_a_whole_takes_no_steps
            a_step_extends_the_lease
            a_step_issued_again_is_done_once
            an_end_issued_again_later_ends_nothing_else
            a_step_of_a_missing_record_says_that_it_is_missing
            a_resumed_execution_keeps_its_steps
            only_an_accounted_execution_is_resumed
            a_step_in_doubt_is_begun_again_within_its_permission
            a_failure_needs_its_steps_accounted_for
            a_release_forgets_the_steps
            steps_are_swept_with_the_outcome
            steps_are_purged_with_their_record
            an_abandoned_execution_is_noticed
            a_due_record_is_taken_by_one
            what_is_put_off_is_due_later
            a_verdict_ends_an_uncertain_record
            a_verdict_about_the_past_changes_nothing
            a_verdict_needs_the_hold_it_was_made_under
            a_verdict_issued_again_is_done_once
            a_judged_outcome_is_swept_when_it_is_over
            an_ending_belongs_to_who_wrote_it
            proof_settles_what_was_freed
            proof_that_comes_too_late_is_noted
            closing_fences_the_earlier_attempts
            what_is_uncertain_is_told_by_operation
            what_ran_unprotected_has_a_record_afterwards
            what_ran_unprotected_is_brought_in_once
            what_ran_unprotected_does_not_replace_what_is_known
            what_runs_unprotected_is_executing_until_its_end
            a_success_unprotected_is_the_outcome_where_there_is_none
            a_claim_issued_again_is_ours
            a_claim_issued_again_does_not_take_anothers_for_its_own
            an_advance_issued_again_is_ours
            an_admission_or_renewal_issued_again_is_done
            a_settle_issued_again_comes_to_the_same_ending
            lost_answers_are_no_regression
            a_store_that_went_back_admits_nothing
            a_heartbeat_notices_a_store_that_went_back
            another_incarnation_is_noticed
            a_lost_answer_is_not_resolved_by_another_incarnation
            nodes_do_not_disturb_each_others_marks
            reopening_continues
            a_node_may_come_and_go
            an_outcome_becomes_a_tombstone_when_its_retention_is_over
            a_body_is_dropped_when_its_retention_is_over
            a_record_is_purged_when_its_tombstone_is_over
            a_stub_is_kept_for_its_tombstone
            nothing_unsettled_is_ever_swept
            a_sweep_needs_both_clocks
            a_sweep_goes_in_steps
            an_answer_reads_back_byte_for_byte
            an_observed_answer_is_replaced_by_the_outcome
            a_find_is_never_before_the_acknowledged_nor_ahead_of_the_written
            finding_claiming_and_listing_agree
            a_list_is_newest_first_and_filtered
            a_list_pages_without_gaps
            every_operation_with_a_policy_is_known
            a_policy_reads_back_exactly
            a_record_belongs_to_its_policys_operation
            another_effect_secret_is_noticed
            arrivals_are_judged_as_enforcing_would
            observations_are_counted_and_read_back
            observing_makes_no_record
            observations_are_swept_when_they_are_over
        }
    };
}
