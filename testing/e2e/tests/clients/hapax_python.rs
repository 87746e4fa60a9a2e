//! Our client for Python, through each of its transports.

use std::path::Path;

use hapax_testkit::{Client, run};

use crate::{driver::find_hapax, hapax::example, scene::Scene};

mod requests {
    use hapax_testkit::Client;

    use crate::{
        driver::Driver,
        hapax::{ours, promises_of_ours},
    };

    const REQUESTS: Driver = ours(Client::Python, "hapax_requests.py");

    promises_of_ours!(REQUESTS);
}

mod httpx {
    use hapax_testkit::Client;

    use crate::{
        driver::Driver,
        hapax::{ours, promises_of_ours},
    };

    const HTTPX: Driver = ours(Client::Python, "hapax_httpx.py");

    promises_of_ours!(HTTPX);
}

mod httpx_async {
    use hapax_testkit::Client;

    use crate::{
        driver::Driver,
        hapax::{ours, promises_of_ours},
    };

    const HTTPX_ASYNC: Driver = ours(Client::Python, "hapax_httpx_async.py");

    promises_of_ours!(HTTPX_ASYNC);
}

#[test]
fn k7_the_client_for_python_keeps_what_its_own_tests_say_and_decides_as_the_others() {
    if Client::Python.is_left_out() {
        return;
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python/tests");
    let mut python = Client::Python.interpreter();
    find_hapax(&mut python);
    python.args(["-W", "error::ResourceWarning", "-m", "unittest", "discover", "-s"]).arg(tests);
    let ran = run(&mut python);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn the_example_of_the_client_for_python_pays_once() {
    if Client::Python.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    let mut python = Client::Python.interpreter();
    find_hapax(&mut python);
    let ran = run(python.arg("-c").arg(example(&scene, "python/README.md")));
    assert!(ran.stdout.starts_with("201 {'amount': 1200"), "{ran:?}");
    scene.upstream.assert_effects(1);
}
