//! Files for pictures that cannot be written, or must not: told before anything is read or simulated, nothing is touched.

use std::fs;

use crate::bad_input::{all, check, prepared};

/// Every command that draws, each of which would take minutes or fail for another reason if the files were not looked at
/// first.
const COMMANDS: [&str; 9] = [
    "simulate clients --runs 500",
    "simulate attack --phases 100000",
    "simulate lockout --runs 500",
    "simulate split --runs 500",
    "simulate outage --length 1d",
    "simulate patterns",
    "replay none.csv",
    "replay none.csv --subscriber anna",
    "replay none.csv --all-subscribers",
];

#[test]
fn what_cannot_be_written_is_told_before_any_work() {
    let place = prepared();
    fs::create_dir(place.path("directory")).expect("a directory");
    place.write("kept.svg", "precious");
    let mut protected = fs::metadata(place.path("kept.svg")).expect("a file").permissions();
    protected.set_readonly(true);
    fs::set_permissions(place.path("kept.svg"), protected).expect("read-only");
    for command in COMMANDS {
        // A small limit of the picture, so that the file is what is wrong.
        let command = if command.contains("outage") { format!("{command} --preset runaway") } else { command.to_owned() };
        let line = |flags: &str| format!("{command} {flags}");
        all(
            &place,
            &[
                (&line("--plot no/such/place.svg"), 1, &["cannot write no/such/place.svg: there is no directory no/such\n"]),
                (&line("--html no/such/place.html"), 1, &["cannot write no/such/place.html: there is no directory no/such\n"]),
                (&line("--plot directory"), 2, &["cannot write directory: it is not a file"]),
                (&line("--html ."), 2, &["cannot write .: it is not a file"]),
                (&line("--plot kept.svg"), 1, &["cannot write kept.svg: it is read-only"]),
                (&line("--html /proc/report.html"), 1, &["cannot write /proc/report.html: "]),
                (&line("--plot a --html a"), 2, &["--plot and --html need two files, not both a"]),
                (&line("--plot a --html ./a"), 2, &["need two files"]),
                (&line("--plot a --html directory/../a"), 2, &["need two files"]),
            ],
        );
    }
}

#[test]
fn what_is_read_is_never_written() {
    let place = prepared();
    std::os::unix::fs::symlink(place.path("good.csv"), place.path("link.csv")).expect("a link");
    all(
        &place,
        &[
            ("replay good.csv --plot good.csv", 2, &["cannot write good.csv: it is good.csv, which is read"]),
            ("replay good.csv --html ./good.csv", 2, &["cannot write ./good.csv: it is good.csv, which is read"]),
            ("replay good.csv --plot link.csv", 2, &["cannot write link.csv: it is good.csv, which is read"]),
            ("replay link.csv --plot good.csv", 2, &["it is link.csv, which is read"]),
            ("min-bucket good.csv --plot good.csv", 2, &["it is good.csv, which is read"]),
            ("replay good.csv --subscriber anna --plot good.csv", 2, &["it is good.csv, which is read"]),
            ("replay good.csv --subscriber anna --html throttler.db", 2, &["it is throttler.db, which is read"]),
        ],
    );
}

#[test]
fn a_picture_has_not_more_panels_than_one_can_look_through() {
    let place = prepared();
    let entry = place.run(&["subscriber", "export"]).ok();
    let (head, rest) = entry.split_once("[\n").expect("a list");
    let (anna, tail) = rest.rsplit_once("\n  ]").expect("its end");
    let others: Vec<String> = (0..30).map(|number| anna.replace("anna", &format!("reader{number}"))).collect();
    place.write("many.json", &format!("{head}[\n{}\n  ]{tail}", others.join(",\n")));
    place.run(&["subscriber", "import", "many.json"]).ok();
    let buckets: String = (1..=13).fold(String::new(), |flags, bucket| flags + &format!(" --bucket {bucket}"));
    all(
        &place,
        &[
            (
                "replay good.csv --all-subscribers --html a.html",
                2,
                &["a picture has at most 24 panels, this one would have 31: name those to draw with --subscriber"],
            ),
            (&format!("replay good.csv --plot a.svg{buckets}"), 2, &["would have 29", "--limiter and --bucket"]),
            (
                "simulate outage --limiter token-bucket,sliding-log --plot a.svg",
                2,
                &["would have 40: choose fewer with --preset, --policy and --limiter"],
            ),
        ],
    );
    let some = ["replay", "good.csv", "--subscriber", "reader3", "--subscriber", "anna", "--html", "a.html"];
    place.run(&some).ok();
    let page = fs::read_to_string(place.path("a.html")).expect("the page");
    assert!(page.contains("reader3: token-bucket 5/h, bucket 74") && page.contains("anna: token-bucket"));
    let ran = place.run(&["replay", "good.csv", "--all-subscribers", "--format", "json"]);
    assert_eq!(ran.json()["results"].as_array().map(Vec::len), Some(31), "numbers have no such bound");
    check(&place.run(&["simulate", "outage", "--format", "yaml"]), 2, &["'yaml'"], "a format");
}
