//! Links and file names in the documents.

use crate::{documents, root};

/// The targets of a document's links to files.
fn file_links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let local = targets.filter(|target| !target.contains("://") && !target.starts_with('#') && !target.starts_with("mailto:"));
    local.map(|target| target.split('#').next().unwrap_or(target).to_owned()).collect()
}

/// What a document names in backquotes with a directory of the project in front.
fn named_files(text: &str) -> Vec<String> {
    let directories = ["src/", "tests/", "docs/", "systemd/", "migrations/", "benches/", "data/", ".ci/"];
    let quoted = text.split('`').skip(1).step_by(2);
    let is_path = |name: &&str| directories.iter().any(|start| name.starts_with(start)) && !name.contains([' ', '*', '…', '{']);
    quoted.filter(is_path).map(str::to_owned).collect()
}

#[test]
fn links_and_file_names_lead_somewhere() {
    let mut checked = 0;
    for (name, text) in documents() {
        let directory = root().join(&name).parent().expect("a document lies in a directory").to_owned();
        for target in file_links(&text) {
            assert!(directory.join(&target).exists(), "{name}: the link to {target} leads nowhere");
            checked += 1;
        }
        for file in named_files(&text) {
            assert!(root().join(&file).exists(), "{name}: there is no {file}");
            checked += 1;
        }
    }
    assert!(checked > 20, "only {checked} links were found");
}

#[test]
fn links_are_found() {
    assert_eq!(file_links("[a](docs/b.md) [c](https://d.org) [e](f.md#g)"), ["docs/b.md", "f.md"]);
    assert_eq!(named_files("`src/plan.rs` and `src/*.rs` and `5/h`"), ["src/plan.rs"]);
}
