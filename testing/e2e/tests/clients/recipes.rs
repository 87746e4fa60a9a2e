//! The pages of `docs/recipes` about what runs here.

use std::{fs, path::Path};

const PAGES: &[&str] =
    &["browsers.md", "curl.md", "fetch.md", "haproxy.md", "nginx.md", "requests.md", "stripe.md"];

/// The fenced blocks of a page.
fn snippets(page: &str) -> Vec<String> {
    page.split("```").skip(1).step_by(2).map(without_its_first_line).collect()
}

fn without_its_first_line(block: &str) -> String {
    block.split_once('\n').map_or("", |(_, code)| code).to_owned()
}

#[test]
fn every_snippet_of_a_client_is_part_of_what_the_tests_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files: Vec<_> = fs::read_dir(root.join("clients"))
        .expect("the clients")
        .map(|file| file.expect("a file").path())
        .filter(|path| path.is_file())
        .map(|path| fs::read_to_string(path).expect("text"))
        .collect();
    let mut seen = 0;
    for page in PAGES {
        let text = fs::read_to_string(root.join("../../docs/recipes").join(page)).expect(page);
        for snippet in snippets(&text) {
            let runs = files.iter().any(|file| file.contains(&snippet));
            assert!(runs, "{page} shows what no test runs:\n{snippet}");
            seen += 1;
        }
    }
    assert!(seen >= PAGES.len(), "the pages have snippets: {seen}");
}
