//! Our client for TypeScript and JavaScript, in a page of Chromium.

use std::{fs, path::Path};

use hapax_testkit::{Browser, Client, Fault, Way, hapax_typescript};

use crate::{
    browser::{CLIENTS, serve_file},
    scene::Scene,
};

const PAY: &str = "window.payOnce({ amount: 1200, currency: 'EUR' })";

fn is_left_out() -> bool {
    Browser::is_left_out() || Client::NodeHapax.is_left_out()
}

/// A page with the client, whose modules the service has.
fn open(scene: &Scene) -> Browser {
    let page = Path::new(CLIENTS).join("hapax.html");
    serve_file(scene, "hapax", "text/html", &page);
    for module in fs::read_dir(hapax_typescript().join("dist")).expect("what was built") {
        let module = module.expect("a module").path();
        let name = module.file_name().and_then(|name| name.to_str()).expect("a name");
        if module.extension().is_some_and(|extension| extension == "js") {
            serve_file(scene, name, "text/javascript", &module);
        }
    }
    let mut browser = Browser::start();
    assert!(browser.open(&scene.url("/hapax")), "the page opens");
    assert!(browser.run("typeof window.payOnce") == "function");
    browser
}

#[test]
fn t06_a_page_with_the_client_pays_once_wherever_its_answer_is_cut() {
    if is_left_out() {
        return;
    }
    let scene = Scene::holding();
    let mut browser = open(&scene);
    let faults = [
        Fault::cut(Way::ToClient),
        // For Chromium that is a whole head, with an empty body.
        Fault::cut(Way::ToClient).after("HTTP/1.1 201 Created".len()),
        Fault::cut(Way::ToClient).after(60),
        Fault::reset(Way::ToClient),
    ];
    for (n, fault) in faults.into_iter().enumerate() {
        let before = scene.front.counts().faults;
        scene.front.on_turns(1, fault);
        let paid = browser.run(PAY);
        assert_eq!(scene.front.counts().faults, before + 1);
        assert_eq!((&paid["came"], &paid["status"]), (&"done".into(), &201.into()), "{paid}");
        let body = paid["body"].as_str().expect("a body");
        assert!(body.contains(&format!("\"id\":\"pay_{}\"", n + 1)), "{fault:?}: {paid}");
        scene.upstream.assert_effects(n + 1);
    }
}

#[test]
fn a_page_is_told_that_what_it_cannot_know_is_unknown() {
    if is_left_out() {
        return;
    }
    let scene = Scene::holding();
    let mut browser = open(&scene);
    scene.back.on_turns(1, Fault::cut(Way::ToClient));
    let held = browser.run(PAY);
    assert_eq!((&held["came"], &held["status"]), (&"unknown".into(), &409.into()), "{held}");
    // It cannot read where it is sent on to, nor that it is.
    scene.upstream.script("payments", "status 303; effect; header location: /hapax");
    let redirected = browser.run(PAY);
    assert_eq!(redirected["came"], "unknown", "{redirected}");
    scene.upstream.assert_effects(2);
}
