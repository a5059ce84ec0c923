//! Everything that a user can get wrong: one clear message that names the place and what was expected, the exit status of the
//! contract, and data as they were.

use rusqlite::Connection;

use crate::place::{Place, Ran, catalogue};

/// A place with a subscriber and a catalogue.
pub(crate) fn prepared() -> Place {
    let place = Place::new();
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    let catalogue = std::fs::read_to_string(catalogue()).expect("the catalogue");
    let mut lines = catalogue.lines().take(4).map(|line| line.to_owned() + "\n");
    place.write("good.csv", &lines.by_ref().collect::<String>());
    place
}

/// It failed with this status, on standard error alone, in words that have all of `expected`.
pub(crate) fn check(ran: &Ran, status: i32, expected: &[&str], what: &str) {
    assert_eq!((ran.status, ran.out.as_str()), (Some(status), ""), "{what}: {}", ran.err);
    let first = ran.err.lines().next().unwrap_or_default();
    assert!(first.starts_with("throttler: ") || first.starts_with("error: "), "{what}: {first}");
    for part in expected {
        assert!(ran.err.contains(part), "{what}: '{part}' is not in: {}", ran.err);
    }
    assert!(!ran.err.contains("panicked") && ran.err.len() < 1_500, "{what}: {}", ran.err);
}

/// The arguments, separated by spaces; `_` stands for a space within one.
fn words(line: &str) -> Vec<String> {
    line.split(' ').map(|word| word.replace('_', " ")).collect()
}

pub(crate) fn all(place: &Place, cases: &[(&str, i32, &[&str])]) {
    let before = place.files();
    for (line, status, expected) in cases {
        let args = words(line);
        let ran = place.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
        check(&ran, *status, expected, line);
        assert_eq!(place.files(), before, "{line}: the files are as they were");
    }
}

#[test]
fn wrong_questions() {
    all(
        &prepared(),
        &[
            (
                "min-bucket good.csv --curve 5..5/h",
                2,
                &["'5..5/h' is not a span of rates: expected FROM..TO/WINDOW, like 1..38/h"],
            ),
            ("min-bucket good.csv --curve 1-5/h", 2, &["'1-5/h' is not a span of rates"]),
            ("min-bucket good.csv --lose 101%", 2, &["'101%' is not an accepted loss", "from 0 to 100"]),
            ("min-bucket good.csv --bucket 0", 2, &["--bucket 0 holds nothing: expected a bucket of 1 or more"]),
            ("min-bucket good.csv --threads 0", 2, &["--threads 0: expected 1 to 64"]),
            ("min-bucket good.csv --time-format iso", 2, &["'iso' is not a time format: expected rfc3339, epoch-s"]),
            ("min-bucket good.csv --time-column when", 3, &["good.csv, line 1: there is no column when"]),
            ("min-bucket good.csv --plot no/such/place.svg", 1, &["cannot write no/such/place.svg"]),
            ("min-bucket - -", 2, &["standard input (-) can be read only once"]),
            ("recommend good.csv --per 0s", 2, &["longer than zero"]),
            ("recommend none.csv", 1, &["none.csv", "throttler catalog fetch"]),
            ("replay good.csv --subscriber nobody", 2, &["there is no subscriber 'nobody'"]),
            ("replay good.csv --all-subscribers --rate 5/h", 2, &["cannot be used with"]),
            ("simulate clients --runs 0", 2, &[]),
            ("demo", 1, &["there is no data/quakes_2015_2025.csv", "--catalogue"]),
            ("demo --catalogue good.csv", 3, &["good.csv has no events from 2025-07-29T12:00:00Z"]),
        ],
    );
}

#[test]
fn wrong_flags() {
    all(
        &prepared(),
        &[
            ("frobnicate", 2, &["unrecognized subcommand 'frobnicate'", "Usage:"]),
            ("replay good.csv --colour red", 2, &["unexpected argument '--colour'"]),
            ("min-bucket", 2, &["<FILE>"]),
            ("min-bucket good.csv --format yaml", 2, &["'yaml'", "text, json"]),
            ("subscriber add bruno", 2, &["where should bruno's alerts go?", "--email ADDRESS or --webhook URL"]),
            ("subscriber add bruno --email a@example.org --webhook https://example.org", 2, &["cannot be used with"]),
            ("subscriber add b_b --email a@example.org", 2, &["'b b' is not a subscriber's name", "letters, digits"]),
            ("subscriber add anna --email a@example.org", 2, &["there is already a subscriber 'anna'", "subscriber set"]),
            ("subscriber show bruno", 2, &["there is no subscriber 'bruno'", "subscriber list"]),
            ("subscriber set bruno --rate 1/h", 2, &["there is no subscriber 'bruno'"]),
            ("subscriber pause bruno", 2, &["there is no subscriber 'bruno'"]),
            ("subscriber remove bruno", 2, &["there is no subscriber 'bruno'"]),
            ("subscriber set anna", 2, &["nothing to set", "--help"]),
            ("subscriber set anna --new-secret", 2, &["signs webhooks", "anna gets email"]),
            ("subscriber set anna --excess maybe", 2, &["'maybe'", "digest, delay or drop"]),
            ("subscriber set anna --mode loud", 2, &["'loud'", "enforce or shadow"]),
            ("subscriber set anna --tsunami maybe", 2, &["'maybe'", "true, false"]),
            ("subscriber set anna --min-alert purple", 2, &["'purple'", "green, yellow, orange or red"]),
            ("subscriber set anna --type earthquake,,", 2, &["is not a list of event types", "earthquake,volcanic eruption"]),
            ("ledger --subscriber bruno", 2, &["there is no subscriber 'bruno'"]),
            ("ledger --event us1", 2, &["no event 'us1' has been recorded"]),
            ("ledger --event us_1", 2, &["'us 1' is not an event id", "1 to 64 visible ASCII"]),
            ("--config none.toml config check", 2, &["cannot read the configuration none.toml", "No such file"]),
            ("min-bucket - -", 2, &["standard input (-) can be read only once"]),
        ],
    );
}

#[test]
fn wrong_rates_limits_and_limiters() {
    all(
        &prepared(),
        &[
            ("subscriber set anna --rate 5", 2, &["'--rate", "'5' is not a rate", "N/WINDOW", "5/h"]),
            ("subscriber set anna --rate 5/fortnight", 2, &["'5/fortnight' is not a rate", "ms, s, m, h, d or w"]),
            ("subscriber set anna --rate 0/h", 2, &["a rate admits 1 to 1000000000 per window, not 0"]),
            ("subscriber set anna --rate -1/h", 2, &["'-1/h' is not a rate"]),
            ("subscriber set anna --rate 5/0h", 2, &["longer than zero", "ten years"]),
            ("min-bucket good.csv --rate five/h", 2, &["'five/h' is not a rate"]),
            ("replay good.csv --rate 1/99999w", 2, &["at most ten years"]),
            ("replay good.csv --limiter bucket", 2, &["'bucket' is not a limiter", "token-bucket or leaky-bucket"]),
            ("replay good.csv --counter-rule above", 2, &["'above' is not a counter rule", "below or fits"]),
            ("replay good.csv --bucket 0", 2, &["a bucket holds 1 to 1000000000, not 0"]),
            ("replay good.csv --bucket many", 2, &["'--bucket", "'many' is not a count", "a whole number"]),
            ("subscriber set anna --bucket -5", 2, &["'-5' is not a count"]),
            ("subscriber set anna --bucket 99999999999999999999", 2, &["a bucket holds 1 to 1000000000"]),
            ("subscriber set anna --limiter sliding-log --bucket 5", 2, &["a sliding-log has no bucket"]),
            ("subscriber set anna --counter-rule fits", 2, &["belongs to a sliding-counter, not to a token-bucket"]),
            ("subscriber set anna --reserve 74 --reserve-from 6", 2, &["a reserve of 74 is outside 1 to 73"]),
            ("subscriber set anna --reserve few --reserve-from 6", 2, &["'few' is not a count"]),
            ("subscriber set anna --reserve 5", 2, &["--reserve-from M beside --reserve"]),
            ("subscriber set anna --reserve-from 6", 2, &["--reserve K beside --reserve-from"]),
            ("subscriber set anna --cost 6", 2, &["'6' is not a list of costs", "6=2,7=3"]),
            ("subscriber set anna --cost 7=2,6=3", 2, &["ascending order"]),
            ("subscriber set anna --cost 6=75", 2, &["a cost of 75 is outside 1 to 74"]),
            ("subscriber set anna --quiet 25:00-07:00", 2, &["'25:00-07:00' is not a span of the day", "22:00-07:00"]),
            ("subscriber set anna --quiet 22:00", 2, &["'22:00' is not a span of the day"]),
            ("subscriber set anna --quiet 07:00-07:00", 2, &["'07:00-07:00' begins when it ends"]),
            ("subscriber set anna --quiet 22:00-07:00 --zone Asia/Kamchatca", 2, &["nearest known one is 'Asia/Kamchatka'"]),
            ("subscriber set anna --zone Asia/Kamchatka", 2, &["when is it quiet?", "--quiet FROM-TO beside --zone"]),
            ("subscriber set anna --quiet-below 6", 2, &["--quiet FROM-TO beside --quiet-below"]),
            ("subscriber set anna --quiet none --zone UTC", 2, &["--zone has no quiet hours to belong to: --quiet is none"]),
            ("subscriber set anna --quiet 22:00-07:00 --quiet-below loud", 2, &["'loud' is not a magnitude"]),
        ],
    );
}

#[test]
fn wrong_times_magnitudes_and_coordinates() {
    all(
        &prepared(),
        &[
            ("min-bucket good.csv --from yesterday", 2, &["'--from", "'yesterday' is not a time", "RFC 3339", "2025-07-29"]),
            ("replay good.csv --to 2025-13-01", 2, &["'--to", "'2025-13-01' is not a time"]),
            ("replay good.csv --from 2025-01-02 --to 2025-01-01", 2, &["is empty", "from is inclusive, to exclusive"]),
            ("min-bucket good.csv --min-magnitude five", 2, &["'five' is not a magnitude", "-10 to 12"]),
            ("subscriber set anna --min-magnitude 99", 2, &["'99' is not a magnitude"]),
            ("subscriber set anna --min-magnitude -11", 2, &["'-11' is not a magnitude"]),
            ("subscriber set anna --always-from -11", 2, &["'-11' is not a magnitude"]),
            ("subscriber set anna --reserve 5 --reserve-from NaN", 2, &["'NaN' is not a magnitude"]),
            ("subscriber set anna --max-depth-km deep", 2, &["'deep' is not a depth", "-100 to 1000 km"]),
            ("subscriber set anna --near 91,0 --within-km 9", 2, &["91 is not a latitude", "-90 to 90"]),
            ("subscriber set anna --near 0,181 --within-km 9", 2, &["181 is not a longitude", "-180 to 180"]),
            ("subscriber set anna --near 52.5 --within-km 9", 2, &["'52.5' is not a place", "LAT,LON"]),
            ("subscriber set anna --near 52.5,160", 2, &["--within-km R beside --near"]),
            ("subscriber set anna --within-km 9", 2, &["--near LAT,LON beside --within-km"]),
            ("subscriber set anna --near 52.5,160 --within-km -4", 2, &["'-4' is not a radius", "more than 0"]),
            ("subscriber set anna --bbox 1,2,3", 2, &["'1,2,3' is not a box", "W,S,E,N"]),
            ("subscriber set anna --bbox 1,20,3,10", 2, &["south edge 20 lies north of the north edge 10"]),
            ("subscriber set anna --bbox 1,2,3,4 --within-km 5", 2, &["--within-km belongs to --near"]),
        ],
    );
}

#[test]
fn wrong_addresses_and_urls() {
    all(
        &prepared(),
        &[
            ("subscriber add b --email nobody", 2, &["'--email", "'nobody' is not an email address", "anna@example.org"]),
            ("subscriber add b --email Anna_<a@example.org>", 2, &["is not an email address", "without a display name"]),
            ("subscriber add b --webhook example.org/hook", 2, &["'--webhook", "an absolute URL"]),
            ("subscriber add b --webhook ftp://example.org/", 2, &["expected http or https"]),
            ("subscriber add b --webhook https://example.org/#top", 2, &["expected no fragment"]),
            ("subscriber add b --email b@example.org --preset slack", 2, &["cannot be used with"]),
            ("subscriber set anna --preset slack", 2, &["the preset slack is a form of webhooks, and this one gets email"]),
            ("subscriber set anna --template good.csv", 2, &["--template belongs to --preset template"]),
            ("subscriber add b --webhook https://example.org/ --preset teams", 2, &["json, slack, discord, ntfy, cap, template"]),
            (
                "subscriber add b --webhook https://example.org/ --preset template",
                2,
                &["which template? Expected --template FILE"],
            ),
            ("subscriber add b --webhook https://example.org/ --preset cap --template good.csv", 2, &["--template belongs to"]),
            (
                "subscriber add b --webhook https://example.org/ --preset template --template none.json",
                1,
                &["cannot read the template none.json"],
            ),
            (
                "subscriber add b --webhook https://example.org/ --preset template --template good.csv",
                3,
                &["good.csv: ", "not JSON"],
            ),
            ("subscriber add b --webhook https://ntfy.sh/ --preset ntfy", 2, &["the URL of a topic"]),
            ("subscriber test nobody", 2, &["there is no subscriber 'nobody'"]),
            ("subscriber test anna", 2, &["email.smtp: expected where mail goes, since anna gets email"]),
            ("subscriber add b --webhook http://example.org/", 2, &["plain http", "expected https", "allow_private = true"]),
            ("subscriber add b --webhook https://127.0.0.1/", 2, &["loopback", "allow_private = true under [webhook]"]),
            ("subscriber add b --webhook https://169.254.169.254/", 2, &["metadata service", "nothing is ever sent there"]),
        ],
    );
}

#[test]
fn wrong_configurations() {
    let place = prepared();
    for (text, expected) in [
        ("[feed]\npol = \"60s\"\n", &["c.toml", "unknown key 'feed.pol'", "nearest known one is 'feed.poll'"][..]),
        ("[feed]\npoll = \"60\"\n", &["c.toml:2: poll", "'60' is not a duration", "90s, 15m, 24h or 7d"]),
        ("[email]\nmax_per_second = 0\n", &["c.toml: email.max_per_second", "a rate admits 1 to 1000000000 per window, not 0"]),
        ("[webhook]\nmax_per_second_per_host = -1\n", &["c.toml:2: max_per_second_per_host"]),
        ("[webhook]\nhosts = { \"discord.com\" = \"30\" }\n", &["c.toml:2: hosts", "'30' is not a rate"]),
        (
            "[webhook]\nhosts = { \"https://discord.com\" = \"30/m\" }\n",
            &["c.toml: webhook.hosts", "'https://discord.com' is not a host"],
        ),
        ("[[limit]]\nname = \"a\"\nrate = \"1/s\"\n", &["c.toml: limit 'a' covers nothing", "channel, host, tag or all = true"]),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1/s\"\nchannel = \"emial\"\n",
            &["c.toml: limit 'a' covers nothing", "'emial' is no channel", "the nearest is 'email'"],
        ),
        ("[[limit]]\nname = \"a\"\nrate = \"1/s\"\nall = true\ntag = \"b\"\n", &["c.toml: limit 'a' says twice what it covers"]),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1/s\"\nall = true\n[[limit]]\nname = \"a\"\nrate = \"2/s\"\nall = true\n",
            &["c.toml: limit 'a': there are two limits of this name"],
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1/s\"\nhost = \"https://x\"\n",
            &["c.toml: limit 'a': host", "'https://x' is not a host"],
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1/s\"\nall = true\ncost = 2\n",
            &["c.toml: limit 'a' never lets anything pass", "costs 2", "at most 1"],
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1/s\"\nall = true\nalgorithm = \"leaky-bucket\"\n",
            &["c.toml: limit 'a'", "token-bucket of bucket = 1"],
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1/s\"\nall = true\noutage = \"fail-open\"\n",
            &["c.toml: limit 'a'", "this one's is local"],
        ),
        ("[limit]\nname = \"a\"\n", &["c.toml:1", "[[limit]]"]),
        (
            "[[limit]]\nname = \"a\"\nrate = \"3/s\"\nall = true\nstore = \"redis://x\"\nalgorithm = \"fixed-window\"\n\
             outage = \"local-share\"\ninstances = 4\n",
            &["c.toml: limit 'a': local-share leaves one of 4 instances nothing of 3/s; expected at least 4"],
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"9/s\"\nall = true\nstore = \"redis://x\"\noutage = \"local-share\"\n",
            &["c.toml: limit 'a': expected instances"],
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1/s\"\nall = true\nstore = \"redis://x\"\n\
             [[limit]]\nname = \"b\"\nrate = \"1/s\"\nall = true\nstore = \"redis://y\"\n",
            &["c.toml: limit 'b': its store is redis://y, and that of 'a' redis://x; expected one server for all"],
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1/s\"\nall = true\nstore = \"http://:sesame@x\"\n",
            &["c.toml: limit 'a': 'http://…' is no address of a Redis server: expected local, redis://"],
        ),
        (
            "[[limit]]\nname = \"a\"\nrate = \"1000000/d\"\nall = true\nstore = \"redis://x\"\n",
            &["c.toml: limit 'a': a token-bucket of 1000000/d is beyond what Redis computes exactly"],
        ),
        ("[feed]\npoll = \"5s\"\n", &["c.toml: feed.poll", "5s is too often for https://", "1m or more"]),
        ("[feed]\nurl = \"gopher://x\"\n", &["c.toml: feed.url", "'gopher://x'", "expected https, http or file"]),
        ("[feed]\nurl = \"file:///none/x.geojson\"\n", &["c.toml: feed.url", "cannot read /none/x.geojson"]),
        ("[feed]\nmin_magnitude = \"5\"\n", &["c.toml:2: min_magnitude", "expected a number"]),
        ("[feed]\nmin_magnitude = 99\n", &["c.toml:2: min_magnitude", "'99' is not a magnitude"]),
        ("[feed]\nfirst_run = \"later\"\n", &["c.toml:2: first_run", "`baseline` or `alert`"]),
        ("[feed]\ncontact = \"a(b\"\n", &["contact"]),
        ("[email]\nsmtp = \"smtp://127.0.0.1\"\n", &["c.toml: email.from", "expected a sender"]),
        ("[email]\nsmtp = \"imap://x\"\nfrom = \"a@example.org\"\n", &["c.toml: email.smtp", "smtp://, smtp+starttls://"]),
        ("[email]\nsmtp = \"smtp://127.0.0.1\"\nfrom = \"nobody\"\n", &["c.toml: email.from", "'nobody' is not a sender"]),
        ("[email]\nsmtp = \"smtp://u@127.0.0.1\"\nfrom = \"a@example.org\"\n", &["user name without a password"]),
        (
            "[email]\nsmtp = \"smtp://u@127.0.0.1\"\nfrom = \"a@example.org\"\nsmtp_password_file = \"none\"\n",
            &["the mail server's password from none", "No such file"],
        ),
        ("[web]\nlisten = \"8080\"\n", &["c.toml:2: listen", "127.0.0.1:8080"]),
        ("[webhook]\nallow_private = 1\n", &["c.toml:2: allow_private", "expected a boolean"]),
        ("[feed]\nduplicate_within = \"2m\"\n", &["c.toml: feed.duplicate_within: 2m is too long", "at most 1m"]),
        ("[feed]\nduplicate_km = nan\n", &["c.toml: feed.duplicate_km: NaN is not a distance"]),
        ("[feed]\nduplicate_magnitude = -0.5\n", &["c.toml: feed.duplicate_magnitude: -0.5", "expected 0 to 10"]),
        ("[feed]\nconfirm_from = 80.0\n", &["c.toml:2: confirm_from: '80' is not a magnitude"]),
        ("[feed]\nconfirm_form = 8.0\n", &["unknown key 'feed.confirm_form'", "'feed.confirm_for"]),
        ("feed = 5\n", &["c.toml:1: feed", "a table like [feed]"]),
        ("[feed\n", &["c.toml:1"]),
    ] {
        place.write("c.toml", text);
        let before = place.files();
        check(&place.run(&["--config", "c.toml", "config", "check"]), 2, expected, text);
        if !text.contains("/none/") {
            // A feed's file may come later; all else is refused by the daemon as well, before it touches anything.
            check(&place.run(&["--config", "c.toml", "run"]), 2, expected, text);
        }
        assert_eq!(place.files(), before, "{text}");
    }
    let told = place.command(&["run"]).env("THROTTLER_LOG", "[[").output().expect("the program");
    assert_eq!(told.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&told.stderr).contains("$THROTTLER_LOG is '[['"));
}

#[test]
fn limits_that_cover_nobody_or_lie_nowhere_are_found() {
    let place = prepared();
    let check_it = |text: &str| {
        place.write("c.toml", text);
        place.run(&["--config", "c.toml", "config", "check"])
    };
    let tagged = "[[limit]]\nname = \"bulk\"\nrate = \"5/s\"\ncost = 2\ntag = \"bluk\"\n";
    place.write("c.toml", "");
    let set = place.run(&["--config", "c.toml", "subscriber", "set", "anna", "--tags", "bulk,europe"]);
    assert_eq!(set.status, Some(0), "{}", set.err);
    check(
        &check_it(tagged),
        2,
        &["c.toml: limit 'bulk' covers nothing: no subscriber has the tag 'bluk'; the nearest is 'bulk'"],
        tagged,
    );
    let right = check_it(&tagged.replace("bluk", "bulk"));
    let line =
        "bulk, subscribers tagged bulk: up to 5 at once, 5 per second on average, at most 9 in any second; a delivery costs 2";
    assert!(right.status == Some(0) && right.out.contains(line), "{} {}", right.out, right.err);
    let host = "[[limit]]\nname = \"slack\"\nrate = \"1/s\"\nhost = \"hooks.slcak.com\"\n";
    check(&check_it(host), 2, &["limit 'slack' covers nothing: no subscriber has a webhook at 'hooks.slcak.com'"], host);
    let nowhere = "[[limit]]\nname = \"a\"\nrate = \"1/s\"\nall = true\nstore = \"redis://anna:sesame@127.0.0.1:1\"\n";
    let told = check_it(nowhere);
    check(&told, 2, &["c.toml: limit store: cannot reach redis://127.0.0.1:1: "], nowhere);
    assert!(!told.err.contains("sesame"), "{}", told.err);
}

#[test]
fn wrong_catalogues() {
    let place = prepared();
    let good = std::fs::read_to_string(place.path("good.csv")).expect("the catalogue");
    let header = good.lines().next().expect("a header").to_owned();
    let row = good.lines().nth(1).expect("a row").to_owned();
    let spoilt = |from: &str, to: &str| {
        assert!(row.contains(from), "{row}");
        format!("{header}\n{row}\n{}\n", row.replacen(from, to, 1))
    };
    let time = row.split(',').next().expect("a time").to_owned();
    place.write("time.csv", &spoilt(&time, "noon"));
    place.write("fields.csv", &format!("{header}\n{row}\n{row},surplus\n"));
    place.write("columns.csv", "when,size\n2020-01-01T00:00:00Z,5\n");
    place.write("page.csv", "<!DOCTYPE html><html>503</html>");
    place.write("limit.csv", "Error 400: Bad Request\n\n25000 matching events exceeds search limit of 20000.\n");
    place.write("data.csv", "{\"type\":\"FeatureCollection\"}");
    let magnitude_at = header.split(',').position(|name| name == "mag").expect("a magnitude");
    let mut fields: Vec<&str> = row.split(',').collect();
    fields[magnitude_at] = "five";
    place.write("mag.csv", &format!("{header}\n{}\n", fields.join(",")));
    for command in ["min-bucket", "replay"] {
        let line = |file: &str| format!("{command} {file}");
        all(
            &place,
            &[
                (&line("time.csv"), 3, &["time.csv, line 3, column time", "'noon' is not a time", "RFC 3339"]),
                (&line("fields.csv"), 3, &["fields.csv, line 3", "expected"]),
                (&line("columns.csv"), 3, &["columns.csv", "time"]),
                (&line("page.csv"), 3, &["page.csv", "HTML", "expected CSV"]),
                (&line("limit.csv"), 3, &["limit.csv"]),
                (&line("data.csv"), 3, &["data.csv", "JSON", "expected CSV"]),
                (&line("none.csv"), 1, &["none.csv", "there is no such file", "throttler catalog fetch"]),
            ],
        );
    }
    all(&place, &[("replay mag.csv", 3, &["mag.csv, line 2, column mag", "'five' is not a magnitude"])]);
    let skipping = place.run(&["replay", "time.csv", "--skip-bad-rows"]);
    assert_eq!(skipping.status, Some(0));
    assert!(skipping.err.contains("1 row is not well formed") && skipping.err.contains("line 3"), "{}", skipping.err);
}

#[test]
fn wrong_documents_to_import() {
    let place = prepared();
    let export = place.run(&["subscriber", "export"]).ok().replace("anna", "bruno");
    let twice = |text: &str| {
        let (head, rest) = text.split_once("[\n").expect("a list");
        let (entry, tail) = rest.rsplit_once("\n  ]").expect("its end");
        format!("{head}[\n{entry},\n{entry}\n  ]{tail}")
    };
    let hook = export.replace("\"email\": \"bruno@example.org\"", "\"webhook\": \"http://10.0.0.1/\"");
    for (text, expected) in [
        ("time,mag\n".to_owned(), &["i.json:1:", "not JSON"][..]),
        (export.replace("\n}", ""), &["i.json:", "not JSON", "EOF"]),
        (export.replace("subscribers.v1", "subscribers.v9"), &["'throttler.subscribers.v1'", "'throttler.subscribers.v9'"]),
        (export.replace("\"5/h\"", "\"5\""), &["i.json:", "'5' is not a rate"]),
        (export.replace("74", "0"), &["i.json:", "a bucket holds 1 to"]),
        (export.replace("\"mode\"", "\"moed\""), &["i.json:", "unknown field `moed`", "`mode`"]),
        (export.replace("bruno@example.org", "bruno"), &["i.json:", "'bruno' is not an email address"]),
        (export.replace("\"min_magnitude\": 5.0", "\"min_magnitude\": 50"), &["i.json:", "'50' is not a magnitude"]),
        (
            export.replace("\"subscriber\": {", "\"secret\": \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\", \"subscriber\": {"),
            &["subscriber 1 (bruno)", "a secret signs webhooks"],
        ),
        (hook, &["subscriber 1 (bruno)", "allow_private"]),
        (twice(&export), &["subscriber 2 (bruno)", "a second time"]),
    ] {
        place.write("i.json", &text);
        let before = place.files();
        check(&place.run(&["subscriber", "import", "i.json"]), 3, expected, &text);
        assert_eq!(place.files(), before, "{text}");
    }
    check(&place.run(&["subscriber", "import", "none.json"]), 1, &["cannot read none.json"], "a missing file");
    place.write("i.json", &export);
    place.run(&["subscriber", "import", "i.json"]).ok();
}

#[test]
fn databases_that_are_none_or_of_a_newer_version() {
    let place = prepared();
    std::fs::copy(place.path("throttler.db"), place.path("newer.db")).expect("copied");
    let newer = Connection::open(place.path("newer.db")).expect("opens");
    newer.pragma_update(None, "user_version", 99).expect("the version");
    drop(newer);
    place.write("garbage.db", &"no database\n".repeat(1_000));
    Connection::open(place.path("foreign.db")).expect("opens").execute_batch("CREATE TABLE t (x)").expect("sql");
    for command in ["subscriber list", "subscriber add bruno --email b@example.org", "ledger", "run"] {
        let line = |file: &str| format!("{command} --database {file}");
        all(
            &place,
            &[
                (&line("newer.db"), 1, &["newer.db", "schema version 99", "only up to ", "newer throttler"]),
                (&line("garbage.db"), 1, &["cannot open the database garbage.db: file is not a database\n"]),
                (&line("foreign.db"), 1, &["foreign.db is another program's database"]),
                (&line("none/x.db"), if command == "subscriber list" || command == "ledger" { 2 } else { 1 }, &["none/x.db"]),
            ],
        );
    }
    all(&place, &[("subscriber list --database .", 1, &["cannot open the database ."])]);
    let empty = Place::new();
    for command in ["subscriber list", "subscriber show anna", "subscriber export", "ledger", "subscriber set anna --rate 5/h"] {
        let ran = empty.run(&command.split(' ').collect::<Vec<_>>());
        check(&ran, 2, &["there is no database throttler.db", "`throttler subscriber add` makes one"], command);
    }
    assert!(empty.files().is_empty());
}
