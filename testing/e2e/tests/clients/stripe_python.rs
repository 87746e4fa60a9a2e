//! Stripe's SDK for Python.

use hapax_testkit::Client;

use crate::{
    driver::{Driver, Payment},
    scene::Scene,
    stripe::{promises_of_an_sdk, sdk},
};

const STRIPE: Driver = sdk(Client::Python, "charge.py");

promises_of_an_sdk!(STRIPE, |key| Some(key));

#[test]
fn the_sdk_raises_an_error_for_a_problem() {
    if STRIPE.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    let payment = Payment::new();
    STRIPE.pay(&scene, &payment);
    let came = STRIPE.pay(&scene, &payment.changed());
    assert_eq!((came.status, came.error.as_deref()), (422, Some("APIError")), "{came:?}");
}
