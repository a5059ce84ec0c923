//! Quiet hours on the wall's clock: every minute of a year against a table of minutes, and what happens where the clock is
//! put forward or back.

use chrono::{TimeZone, Timelike};
use chrono_tz::Tz;
use throttler::quiet::{Hours, QuietHours, Zone};
use throttler::time::{Span, Timestamp};

/// Zones with their spans; those of the first line change their clocks within some of them.
const CASES: [(&str, &[&str]); 8] = [
    ("Europe/Berlin", &["22:00-07:00", "01:30-02:30"]),
    ("America/Santiago", &["23:30-00:30", "07:00-22:00"]),
    ("Australia/Lord_Howe", &["22:00-01:45", "01:45-02:15"]),
    ("Pacific/Auckland", &["02:15-02:45", "21:00-02:30"]),
    ("Africa/Casablanca", &["02:30-02:31"]),
    ("Asia/Kamchatka", &["22:00-07:00"]),
    ("Asia/Kolkata", &["00:00-23:59"]),
    ("UTC", &["23:59-00:00"]),
];

fn quiet(hours: &str, zone: &str) -> QuietHours {
    QuietHours { hours: hours.parse().expect(hours), zone: zone.parse().expect(zone), below: None }
}

fn at(text: &str) -> Timestamp {
    text.parse().expect(text)
}

/// What the clock shows at every minute from the first on, in minutes after midnight.
fn shown(zone: &str, first: Timestamp, minutes: usize) -> Vec<usize> {
    let zone: Tz = zone.parse().expect(zone);
    let show = |minute: usize| {
        let seconds = first.seconds() + 60 * i64::try_from(minute).expect("small");
        let wall = zone.timestamp_opt(seconds, 0).single().expect("an instant").time();
        wall.hour() as usize * 60 + wall.minute() as usize
    };
    (0..minutes).map(show).collect()
}

/// Which minutes of the day are quiet: walked from the first to the last.
fn table(hours: &str) -> [bool; 1_440] {
    let minute = |text: &str| text[..2].parse::<usize>().expect("an hour") * 60 + text[3..].parse::<usize>().expect("a minute");
    let (from, to) = hours.split_once('-').expect("a span");
    let (mut minute_now, mut table) = (minute(from), [false; 1_440]);
    while minute_now != minute(to) {
        table[minute_now] = true;
        minute_now = (minute_now + 1) % 1_440;
    }
    table
}

#[test]
fn every_minute_of_a_year_is_as_the_clock_on_the_wall_shows() {
    const MINUTES: usize = 365 * 1_440;
    let first = at("2025-01-01T00:00:00Z");
    let check = |zone: &str, hours: &str| {
        let (quiet, table) = (quiet(hours, zone), table(hours));
        let minute = |number: usize| first.plus(Span::from_seconds(60 * number as u64));
        let is_quiet: Vec<bool> = shown(zone, first, MINUTES + 2_880).into_iter().map(|shown| table[shown]).collect();
        // From the back: the first minute from here on that is not quiet.
        let mut end = MINUTES + 2_880;
        let mut ends = vec![0; MINUTES];
        for number in (0..MINUTES + 2_880).rev() {
            end = if is_quiet[number] { end } else { number };
            if number < MINUTES {
                ends[number] = end;
            }
        }
        for (number, &end) in ends.iter().enumerate() {
            let expected = is_quiet[number].then(|| minute(end));
            // At the minute, or some way into it.
            let now = minute(number).plus(Span::from_ticks(number as u64 % 3 * 29_999_999));
            assert_eq!(quiet.until(now), expected, "{hours} {zone} at {now}");
        }
    };
    std::thread::scope(|scope| {
        for (zone, spans) in CASES {
            scope.spawn(move || spans.iter().for_each(|hours| check(zone, hours)));
        }
    });
}

#[test]
fn the_clock_is_put_forward_and_back() {
    for (hours, zone, now, until) in [
        // Berlin: on 30 March 02:00 becomes 03:00, on 26 October 03:00 becomes 02:00.
        ("22:00-02:30", "Europe/Berlin", "2025-03-30T00:59:59.999999Z", Some("2025-03-30T01:00:00Z")),
        ("22:00-02:30", "Europe/Berlin", "2025-03-30T01:00:00Z", None),
        ("02:30-05:00", "Europe/Berlin", "2025-03-30T00:59:59.999999Z", None),
        ("02:30-05:00", "Europe/Berlin", "2025-03-30T01:00:00Z", Some("2025-03-30T03:00:00Z")),
        ("02:10-02:50", "Europe/Berlin", "2025-03-30T01:00:00Z", None),
        ("22:00-07:00", "Europe/Berlin", "2025-03-29T21:30:00Z", Some("2025-03-30T05:00:00Z")),
        ("22:00-07:00", "Europe/Berlin", "2025-10-25T21:00:00Z", Some("2025-10-26T06:00:00Z")),
        // What is shown twice counts twice: 22:00 to 02:30, and 02:00 to 02:30 again.
        ("22:00-02:30", "Europe/Berlin", "2025-10-25T23:00:00Z", Some("2025-10-26T00:30:00Z")),
        ("22:00-02:30", "Europe/Berlin", "2025-10-26T00:45:00Z", None),
        ("22:00-02:30", "Europe/Berlin", "2025-10-26T01:00:00Z", Some("2025-10-26T01:30:00Z")),
        // Put back to before the start, quiet ends at once, and begins again.
        ("02:30-04:00", "Europe/Berlin", "2025-10-26T00:45:00Z", Some("2025-10-26T01:00:00Z")),
        ("02:30-04:00", "Europe/Berlin", "2025-10-26T01:45:00Z", Some("2025-10-26T03:00:00Z")),
        // Put back from the very end, it goes on.
        ("22:00-03:00", "Europe/Berlin", "2025-10-26T00:59:00Z", Some("2025-10-26T02:00:00Z")),
        // Lord Howe: on 6 April 02:00 becomes 01:30, on 5 October 02:00 becomes 02:30.
        ("23:00-01:45", "Australia/Lord_Howe", "2025-04-05T14:40:00Z", Some("2025-04-05T14:45:00Z")),
        ("23:00-01:45", "Australia/Lord_Howe", "2025-04-05T15:00:00Z", Some("2025-04-05T15:15:00Z")),
        ("23:00-02:15", "Australia/Lord_Howe", "2025-10-04T15:00:00Z", Some("2025-10-04T15:30:00Z")),
        // Never put forward or back these days.
        ("22:00-07:00", "Asia/Kamchatka", "2025-07-30T10:00:00Z", Some("2025-07-30T19:00:00Z")),
        ("22:00-07:00", "Asia/Kamchatka", "2025-07-30T19:00:00Z", None),
        ("22:00-07:00", "Asia/Kolkata", "2025-07-30T16:30:00Z", Some("2025-07-31T01:30:00Z")),
        // Samoa left out 30 December 2011: the clock on the wall showed no other time of the day.
        ("22:00-07:00", "Pacific/Apia", "2011-12-30T09:00:00Z", Some("2011-12-30T17:00:00Z")),
    ] {
        assert_eq!(quiet(hours, zone).until(at(now)), until.map(at), "{hours} {zone} at {now}");
    }
}

#[test]
fn the_next_end_is_told_by_day_as_well() {
    let quiet = quiet("22:00-07:00", "Asia/Kamchatka");
    for (now, end) in [
        ("2025-07-30T09:59:59Z", "2025-07-30T19:00:00Z"),
        ("2025-07-30T12:00:00Z", "2025-07-30T19:00:00Z"),
        ("2025-07-30T19:00:00Z", "2025-07-31T19:00:00Z"),
    ] {
        assert_eq!(quiet.next_end(at(now)), at(end), "{now}");
    }
    // Nothing fails at either end of time.
    assert_eq!(quiet.next_end(Timestamp::MAX), Timestamp::MAX);
    assert!(quiet.next_end(Timestamp::MIN) > Timestamp::MIN);
}

#[test]
fn spans_of_the_day_and_zones_are_read_as_they_are_written() {
    for text in ["22:00-07:00", "00:00-23:59", "07:05-07:06"] {
        assert_eq!(text.parse::<Hours>().expect(text).to_string(), text);
    }
    for text in
        ["", "22:00", "25:00-07:00", "22:60-07:00", "22:00-24:00", "2:00-7:00", "22-07", "+2:00-07:00", "22:00-07:00-09:00"]
    {
        let message = text.parse::<Hours>().expect_err(text).to_string();
        assert!(message.contains("is not a span of the day: expected HH:MM-HH:MM"), "{message}");
    }
    let message = "07:00-07:00".parse::<Hours>().expect_err("no span").to_string();
    assert!(message.contains("begins when it ends"), "{message}");
    for (text, zone) in [("Asia/Kamchatka", "Asia/Kamchatka"), ("asia/kolkata", "Asia/Kolkata"), ("utc", "UTC")] {
        assert_eq!(text.parse::<Zone>().expect(text).to_string(), zone);
    }
    for (text, nearest) in [
        ("Asia/Kamchatca", "Asia/Kamchatka"),
        ("kamchatka", "Asia/Kamchatka"),
        ("Europe/Berlin ", "Europe/Berlin"),
        ("Etc/Unknown", "Etc/UTC"),
    ] {
        let message = text.parse::<Zone>().expect_err(text).to_string();
        assert!(message.contains(&format!("the nearest known one is '{nearest}'")), "{message}");
    }
}

#[test]
fn settings_are_kept_as_they_are() {
    let quiet: QuietHours =
        serde_json::from_str(r#"{"hours":"22:00-07:00","zone":"Asia/Kamchatka","below":6.5}"#).expect("quiet hours");
    assert_eq!(serde_json::to_string(&quiet).expect("JSON"), r#"{"hours":"22:00-07:00","zone":"Asia/Kamchatka","below":6.5}"#);
    assert_eq!(quiet.to_string(), "22:00-07:00 Asia/Kamchatka, below M 6.5");
    let plain: QuietHours = serde_json::from_str(r#"{"hours":"22:00-07:00"}"#).expect("quiet hours");
    assert_eq!(plain, self::quiet("22:00-07:00", "UTC"));
    for (wrong, expected) in [
        (r#"{"hours":"07:00-07:00"}"#, "begins when it ends"),
        (r#"{"hours":"22:00-07:00","zone":"Mars/Olympus"}"#, "is not a time zone"),
        (r#"{"hours":"22:00-07:00","from":1}"#, "unknown field"),
    ] {
        let fault = serde_json::from_str::<QuietHours>(wrong).expect_err(wrong).to_string();
        assert!(fault.contains(expected), "{fault}");
    }
}
