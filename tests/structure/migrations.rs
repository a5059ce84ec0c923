//! An applied migration is never edited: databases that have it would differ from new ones without anybody knowing.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

/// Every migration with the SHA-256 of its file. Change a line only if no release has the file yet.
const APPLIED: [(&str, &[(&str, &str)]); 2] = [("postgres", &POSTGRES), ("sqlite", &SQLITE)];
const POSTGRES: [(&str, &str); 3] = [
    ("0001_first.sql", "6a4ef1755ef6cc9bd6c63e2eb51066eb72969d386815532699faf77a041e1166"),
    ("0002_recoveries.sql", "0cb76014c4a286bd96a75005c604fe7151691e26a44e307ed014845f8617e4b9"),
    ("0003_daemons.sql", "7247dc5f1c183a41496e009f8b330ac161b0378d7b73502cfca1c77fb4ba7de5"),
];
const SQLITE: [(&str, &str); 10] = [
    ("0001_first.sql", "280b16c3345d93838cf122887debb5751cf7ca6e9d1296eb876dd7449ea3542f"),
    ("0002_quiet_hours.sql", "b42899ffd73450fe8720ec5ee04574d8dd84b3566ed271999af6c2353b39efd5"),
    ("0003_news.sql", "1ed8f1f1c02a642ffaac38162454194739b14a83ba41af836a56c92c1c804466"),
    ("0004_feed.sql", "2e0b4f02f4fc6c32ec660668a032f35f8dc711d5ff71299678fa3e151c2fd374"),
    ("0005_outbox.sql", "29af312fcb502287ea5ab1fc58f72eac5ccc6c8b8ed3c56ce41b7a791dc2f7b2"),
    ("0006_unsubscribe.sql", "ec7570f12e4a3216ed4ae976c59af32fb8cd5f6d09229a7a66a1a16f063ae2a6"),
    ("0007_notices.sql", "9a07bc8c91568109b52f81608c1af842e08619a739d929ce164306d890977a08"),
    ("0008_retention.sql", "cadc6ef3db85677e9ab7ceaf05ee33d7e09eab4c2845ebcf6b141ec56dee2b4f"),
    ("0009_fan_out.sql", "c852a9816d8b78988715262955c97e9d816330c913263d3af2d5bd44786cea5f"),
    ("0010_recoveries.sql", "29690259808c33b5595cae140329ca61c666dd3bea117cc6268b797e73d83493"),
];

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}

#[test]
fn migrations_are_as_they_were_applied() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    assert_eq!(names(&directory), APPLIED.map(|(database, _)| database));
    for (database, applied) in APPLIED {
        let directory = directory.join(database);
        let known: Vec<&str> = applied.iter().map(|(name, _)| *name).collect();
        assert_eq!(names(&directory), known, "every migration stands in the list of this test, in order");
        for (name, expected) in applied {
            let found = sha256(&fs::read(directory.join(name)).expect("a migration"));
            assert_eq!(found, *expected, "{database}/{name} was edited; write a new migration instead");
        }
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("migrations");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name in UTF-8")).collect();
    names.sort();
    names
}
