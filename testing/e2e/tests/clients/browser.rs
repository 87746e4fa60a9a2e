//! Chromium: a form that is sent again, and a page that fetches.

use std::{fs, path::Path};

use hapax_testkit::{Browser, Fault, UpstreamKind, Way, eventually};
use serde_json::Value;

use crate::{
    SOON,
    scene::{RESEND, Scene},
};

/// The operation of the form, whose key is one of its fields.
const FORM: &str = include_str!("../../clients/form.toml");

const PAY: &str = "window.payOnce({ amount: 1200 })";

const SUBMIT: &str = "document.forms[0].requestSubmit()";

/// A browser that shows the shop.
struct Shop {
    browser: Browser,
    scene: Scene,
}

impl Shop {
    fn open(kind: UpstreamKind, operation: &str) -> Self {
        let scene = Scene::with(kind, &format!("{operation}\n{FORM}{operation}"));
        serve(&scene, "shop", "text/html", "shop.html");
        serve(&scene, "pay.mjs", "text/javascript", "pay.mjs");
        let mut browser = Browser::start();
        assert!(browser.open(&scene.url("/shop")), "the shop opens");
        assert!(browser.run("typeof window.payOnce") == "function");
        Self { browser, scene }
    }

    /// How many payments the service got.
    fn posts(&self) -> usize {
        self.scene.upstream.arrivals().iter().filter(|arrival| arrival.method == "POST").count()
    }

    #[track_caller]
    fn assert_paid_once(&mut self, shown: &str) {
        assert!(shown.contains("\"id\":\"pay_1\""), "{shown}");
        self.scene.upstream.assert_effects(1);
    }
}

/// Has the service answer with a file of `testing/e2e/clients`.
fn serve(scene: &Scene, name: &str, media_type: &str, file: &str) {
    serve_file(scene, name, media_type, &Path::new(CLIENTS).join(file));
}

/// Where the files for pages are.
pub(crate) const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients");

/// Has the service answer with a file.
pub(crate) fn serve_file(scene: &Scene, name: &str, media_type: &str, file: &Path) {
    let content = fs::read_to_string(file).expect("a file");
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{content}",
        content.len()
    );
    scene.upstream.script_raw(name, answer.as_bytes());
}

/// The body that a page got.
#[track_caller]
fn body(paid: &Value) -> &str {
    assert_eq!(paid["status"], 201, "{paid}");
    paid["body"].as_str().expect("a body")
}

#[test]
fn a_form_that_is_sent_again_by_a_reload_pays_once() {
    if Browser::is_left_out() {
        return;
    }
    let mut shop = Shop::open(UpstreamKind::Plain, "");
    shop.browser.leave_by(SUBMIT);
    let first = shop.browser.text();
    shop.assert_paid_once(&first);
    for _ in 0..2 {
        shop.browser.reload();
        assert_eq!(shop.browser.text(), first);
    }
    assert_eq!(shop.scene.decided("replay"), 2, "the form was sent again");
    assert_eq!(shop.posts(), 1);
}

#[test]
fn t06_a_form_whose_answers_are_lost_pays_once_when_it_is_sent_again() {
    if Browser::is_left_out() {
        return;
    }
    let mut shop = Shop::open(UpstreamKind::Plain, "");
    // A browser comes again by itself where a connection that it used before ends.
    shop.scene.front.on_turns(usize::MAX, Fault::cut(Way::ToClient));
    shop.browser.leave_by(SUBMIT);
    let text = shop.browser.text();
    assert!(text.contains("ERR_EMPTY_RESPONSE"), "{text}");
    shop.scene.front.heal();
    shop.browser.reload();
    let text = shop.browser.text();
    shop.assert_paid_once(&text);
    assert_eq!(shop.posts(), 1);
    assert!(shop.scene.decided("replay") >= 1);
}

#[test]
fn t06_a_form_whose_answer_is_lost_behind_the_gateway_pays_once_under_resend() {
    if Browser::is_left_out() {
        return;
    }
    let mut shop = Shop::open(UpstreamKind::Collapsing, RESEND);
    shop.scene.back.on_turns(1, Fault::cut(Way::ToClient));
    shop.browser.leave_by(SUBMIT);
    let text = shop.browser.text();
    assert!(text.contains("urn:hapax:problem:outcome-unknown"), "{text}");
    shop.browser.reload();
    let text = shop.browser.text();
    shop.assert_paid_once(&text);
    assert_eq!(shop.posts(), 2);
}

#[test]
fn t06_a_page_that_fetches_pays_once_wherever_its_answer_is_cut() {
    if Browser::is_left_out() {
        return;
    }
    let mut shop = Shop::open(UpstreamKind::Plain, "");
    let faults = [
        Fault::cut(Way::ToClient),
        Fault::cut(Way::ToClient).after(20),
        Fault::cut(Way::ToClient).after(60),
        Fault::reset(Way::ToClient),
    ];
    for (n, fault) in faults.into_iter().enumerate() {
        let before = shop.scene.front.counts().faults;
        shop.scene.front.on_turns(1, fault);
        let paid = shop.browser.run(PAY);
        assert_eq!(shop.scene.front.counts().faults, before + 1);
        assert!(body(&paid).contains(&format!("\"id\":\"pay_{}\"", n + 1)), "{fault:?}: {paid}");
        shop.scene.upstream.assert_effects(n + 1);
    }
    assert_eq!(shop.posts(), 4);
}

#[test]
fn t06_a_page_that_fetches_pays_once_when_the_answer_is_lost_behind_the_gateway() {
    if Browser::is_left_out() {
        return;
    }
    let mut shop = Shop::open(UpstreamKind::Collapsing, RESEND);
    shop.scene.back.on_turns(1, Fault::reset(Way::ToClient));
    let paid = shop.browser.run(PAY);
    shop.assert_paid_once(body(&paid));
    assert_eq!(shop.posts(), 2);
}

#[test]
fn p11_a_page_that_fetches_comes_back_when_the_store_is_back() {
    if Browser::is_left_out() {
        return;
    }
    let mut shop = Shop::open(UpstreamKind::Plain, "");
    let lock = shop.scene.lock_store();
    shop.browser.run("window.paying = window.payOnce({ amount: 1200 }); 0");
    eventually("the refusal", SOON, || {
        shop.scene.gateway.metric("hapax_problems_total", &[]) >= 1.0
    });
    assert_eq!(shop.posts(), 0);
    drop(lock);
    let paid = shop.browser.run("window.paying");
    shop.assert_paid_once(body(&paid));
    assert_eq!(shop.posts(), 1);
}

#[test]
fn a_page_that_is_loaded_again_while_it_pays_asks_for_the_same_payment() {
    if Browser::is_left_out() {
        return;
    }
    let mut shop = Shop::open(UpstreamKind::Plain, "");
    shop.scene.upstream.script("payments", "gate answer");
    shop.browser.run("window.paying = window.payOnce({ amount: 1200 }); 0");
    eventually("the payment", SOON, || shop.posts() == 1);
    shop.browser.reload();
    shop.browser.run("window.paying = window.payOnce({ amount: 1200 }); 0");
    eventually("it comes again", SOON, || shop.scene.decided("in_flight") >= 1);
    shop.scene.upstream.open("answer");
    let paid = shop.browser.run("window.paying");
    shop.assert_paid_once(body(&paid));
    assert_eq!(shop.posts(), 1);
}

#[test]
fn a_page_keeps_its_key_while_the_outcome_is_not_known() {
    if Browser::is_left_out() {
        return;
    }
    let mut shop = Shop::open(UpstreamKind::Plain, "");
    shop.scene.back.on_turns(1, Fault::cut(Way::ToClient));
    for holds in 0..2 {
        let told = shop.browser.run(PAY);
        assert_eq!((&told["status"], &told["settled"]), (&409.into(), &false.into()), "{told}");
        assert_eq!(shop.scene.decided("hold"), holds);
        shop.browser.reload();
    }
    shop.scene.upstream.assert_effects(1);
    assert_eq!(shop.posts(), 1);
}

#[test]
fn p51_a_browser_sends_a_post_again_by_itself_and_a_key_makes_it_one_effect() {
    if Browser::is_left_out() {
        return;
    }
    let mut shop = Shop::open(UpstreamKind::Plain, "");
    // One that comes through first, so that the connection has been used.
    let post = |headers: &str| {
        format!(
            "fetch('/payments', {{ method: 'POST', body: '1', headers: {{ {headers} }} }})\
             .then((answer) => answer.text())"
        )
    };
    let keyed = post("'Idempotency-Key': crypto.randomUUID()");
    for (request, effects) in [(&keyed, 1), (&post(""), 2)] {
        shop.browser.run("fetch('/warm').then((answer) => answer.text())");
        let before = shop.scene.upstream.effects().len();
        shop.scene.front.on_turns(1, Fault::cut(Way::ToClient));
        let text = shop.browser.run(request);
        // The page knows nothing of it.
        assert!(text.as_str().is_some_and(|text| text.contains("\"id\":\"pay_")), "{text}");
        shop.scene.upstream.assert_effects(before + effects);
    }
}
