//! Stripe's SDK for Node.

use hapax_testkit::Client;

use crate::{
    driver::{Driver, Payment},
    scene::Scene,
    stripe::{promises_of_an_sdk, sdk},
};

const STRIPE: Driver = sdk(Client::NodeStripe, "charge.mjs");

promises_of_an_sdk!(STRIPE, |key| key.strip_prefix("stripe-node-retry-"));

#[test]
fn the_sdk_takes_a_problem_for_a_success_and_a_look_at_the_status_does_not() {
    if STRIPE.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    let payment = Payment::new();
    STRIPE.pay(&scene, &payment);
    let came = STRIPE.pay(&scene, &payment.changed());
    // Thrown by the script's own look: what the SDK throws is a `Stripe…Error`.
    assert_eq!((came.status, came.error.as_deref()), (422, Some("Error")), "{came:?}");
}
