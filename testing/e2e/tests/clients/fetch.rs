//! Node's `fetch` (undici) with a small loop.

use hapax_testkit::Client;

use crate::driver::Driver;

const FETCH: Driver = Driver {
    client: Client::Node,
    script: "main.mjs",
    honours_retry_after: true,
    retries_in_flight: true,
    repeats_an_unknown_outcome: 0,
};

crate::cases::promises! { FETCH,
    an_answer_lost_between_client_and_gateway_is_replayed
        as t06_an_answer_lost_between_fetch_and_gateway_is_replayed,
    a_request_cut_on_its_way_in_is_executed_once as a_request_of_fetch_that_is_cut_is_executed_once,
    an_answer_lost_behind_the_gateway_is_one_effect_under_resend
        as t06_an_answer_lost_behind_the_gateway_is_one_effect_for_fetch,
    what_is_refused_while_the_store_is_down_is_executed_once_when_it_is_back
        as p11_fetch_comes_back_when_the_store_is_back,
    a_retry_during_the_execution_starts_no_second_one as fetch_asks_again_while_it_is_executed,
    a_retry_during_the_execution_waits_where_the_operation_says_so
        as fetch_waits_for_the_first_request_where_the_operation_says_so,
    an_unknown_outcome_is_told_and_nothing_is_sent_again
        as fetch_is_told_of_an_unknown_outcome,
    a_changed_intent_is_refused_and_not_sent_again as t02_fetch_does_not_repeat_a_changed_intent,
    a_reused_connection_that_ends_is_one_effect_all_the_same
        as p41_a_reused_connection_of_fetch_that_ends_is_one_effect,
}
