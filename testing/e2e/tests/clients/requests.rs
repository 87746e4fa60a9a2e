//! Python's requests with urllib3's `Retry`.

use hapax_testkit::Client;

use crate::driver::Driver;

const REQUESTS: Driver = Driver {
    client: Client::Python,
    script: "pay.py",
    honours_retry_after: true,
    retries_in_flight: true,
    repeats_an_unknown_outcome: 0,
};

crate::cases::promises! { REQUESTS,
    an_answer_lost_between_client_and_gateway_is_replayed
        as t06_an_answer_lost_between_requests_and_gateway_is_replayed,
    a_request_cut_on_its_way_in_is_executed_once as a_request_of_requests_that_is_cut_is_executed_once,
    an_answer_lost_behind_the_gateway_is_one_effect_under_resend
        as t06_an_answer_lost_behind_the_gateway_is_one_effect_for_requests,
    what_is_refused_while_the_store_is_down_is_executed_once_when_it_is_back
        as p11_requests_comes_back_when_the_store_is_back,
    a_retry_during_the_execution_starts_no_second_one as requests_asks_again_while_it_is_executed,
    a_retry_during_the_execution_waits_where_the_operation_says_so
        as requests_waits_for_the_first_request_where_the_operation_says_so,
    an_unknown_outcome_is_told_and_nothing_is_sent_again
        as requests_is_told_of_an_unknown_outcome,
    a_changed_intent_is_refused_and_not_sent_again as t02_requests_does_not_repeat_a_changed_intent,
    a_reused_connection_that_ends_is_one_effect_all_the_same
        as p41_a_reused_connection_of_requests_that_ends_is_one_effect,
}
