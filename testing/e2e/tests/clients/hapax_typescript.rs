//! Our client for TypeScript and JavaScript, in Node.

use std::{fs, path::Path};

use hapax_testkit::{Client, hapax_typescript, run};

use crate::{
    driver::{Driver, HAPAX, beside},
    hapax::{example, ours, promises_of_ours},
    scene::Scene,
};

const FETCH: Driver = ours(Client::NodeHapax, "hapax_pay.mjs");

promises_of_ours!(FETCH);

#[test]
fn k7_the_client_for_typescript_keeps_what_its_own_tests_say_and_decides_as_the_others() {
    if Client::NodeHapax.is_left_out() {
        return;
    }
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients");
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = Client::NodeHapax.interpreter();
    node.env("HAPAX_POLICY_CASES", clients.join("policy-cases.json")).arg("--test");
    for name in ["cases.test.mjs", "client.test.mjs"] {
        let test = clients.join("typescript/tests").join(name);
        node.arg(beside(&test, dir.path(), HAPAX, &hapax_typescript()));
    }
    let ran = run(&mut node);
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
}

#[test]
fn the_example_of_the_client_for_typescript_pays_once() {
    if Client::NodeHapax.is_left_out() {
        return;
    }
    let (scene, dir) = (Scene::holding(), tempfile::tempdir().expect("a directory"));
    let text = dir.path().join("example.mjs");
    fs::write(&text, example(&scene, "typescript/README.md")).expect("written");
    let script = beside(&text, scene.dir(), HAPAX, &hapax_typescript());
    let ran = run(Client::NodeHapax.interpreter().arg(script));
    assert!(ran.stdout.starts_with("201 { amount: 1200"), "{ran:?}");
    scene.upstream.assert_effects(1);
}
