//! The configuration file: which keys there are, what they default to, and where a mistake stands.
//!
//! Addresses of feeds and mail servers stay text here; the rooms that use them say what is wrong with them.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io;
use std::path::{Path, PathBuf};

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::event::Magnitude;
use crate::identity::unlinked::Likeness;
use crate::limiter::{Algorithm, CounterRule};
use crate::limits::{FallbackPolicy, LimitName};
use crate::news::FirstRun;
use crate::notice::Topic;
use crate::rate::Rate;
use crate::time::Span;

/// The commented default, which `throttler config default` prints: every key with its default value.
pub const DEFAULT: &str = include_str!("default.toml");
/// The longest configuration file, in bytes.
pub const MAX_BYTES: u64 = 1 << 20;

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// A file, or the address of a server. `None`: `throttler.db` in the state directory.
    pub database: Option<PathBuf>,
    /// Holds the password of a database on a server.
    pub database_password_file: Option<PathBuf>,
    /// How many days the ledger reaches back; 0: for ever.
    pub ledger_days: u32,
    pub feed: FeedConfig,
    pub email: EmailConfig,
    pub webhook: WebhookConfig,
    pub web: WebConfig,
    pub operator: OperatorConfig,
    /// Limits on deliveries, a `[[limit]]` each.
    pub limit: Vec<LimitConfig>,
    pub redis: RedisConfig,
}

/// `[feed]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FeedConfig {
    pub url: String,
    pub poll: Span,
    pub min_magnitude: Magnitude,
    pub max_age: Span,
    pub first_run: FirstRun,
    /// How far apart two networks' solutions of one quake may lie, and how long they may stay unlinked.
    pub duplicate_within: Span,
    pub duplicate_km: f64,
    pub duplicate_magnitude: f64,
    pub duplicate_for: Span,
    /// From which magnitude an event that one network alone gives automatically awaits confirmation, and how long.
    pub confirm_from: Option<Magnitude>,
    pub confirm_for: Span,
    /// Named in the User-Agent, so that the service can reach the operator.
    pub contact: Option<String>,
    /// When the feed counts as stale: so long after its last successful poll, or after its content was made.
    pub stale_after: Span,
    /// The FDSN event service beside the feed. `None`: the USGS's for a feed of theirs.
    pub fdsn: Option<String>,
    /// Additional root certificates for the feed's service, in PEM.
    pub ca_file: Option<PathBuf>,
}

/// `[email]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmailConfig {
    pub from: Option<String>,
    /// `None`: what would be sent is logged.
    pub smtp: Option<String>,
    pub smtp_username: Option<String>,
    pub smtp_password_file: Option<PathBuf>,
    pub smtp_ca_file: Option<PathBuf>,
    /// Messages a second to the mail server; `None`: as fast as it takes them.
    pub max_per_second: Option<u32>,
}

/// `[webhook]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookConfig {
    pub allow_private: bool,
    /// Requests a second to each host; `None`: as fast as it takes them.
    pub max_per_second_per_host: Option<u32>,
    /// Hosts with a rate of their own, with the port where it is not the usual one.
    pub hosts: BTreeMap<String, Rate>,
}

/// A `[[limit]]`: one of `channel`, `host`, `tag` and `all` says what it covers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitConfig {
    pub name: LimitName,
    /// `email` or `webhook`.
    pub channel: Option<String>,
    /// With the port where it is not the usual one.
    pub host: Option<String>,
    pub tag: Option<String>,
    #[serde(default)]
    pub all: bool,
    #[serde(default = "token_bucket")]
    pub algorithm: Algorithm,
    pub rate: Rate,
    /// `None`: the rate's N, where the algorithm has a bucket.
    pub bucket: Option<u64>,
    #[serde(default)]
    pub counter_rule: CounterRule,
    /// How many admissions a delivery uses up.
    #[serde(default = "one")]
    pub cost: u32,
    /// `local`, or the URL of a Redis server that several instances share.
    #[serde(default = "local")]
    pub store: String,
    /// What holds while that server is away. `None`: fail-closed.
    pub outage: Option<FallbackPolicy>,
    /// How many instances share it.
    pub instances: Option<u32>,
}

/// `[redis]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisConfig {
    /// Holds the password. `None`: a credential, the environment or the URL may hold one.
    pub password_file: Option<PathBuf>,
}

/// [`LimitConfig::store`] of a limit that no other instance knows.
pub const LOCAL: &str = "local";

const fn token_bucket() -> Algorithm {
    Algorithm::TokenBucket
}

const fn one() -> u32 {
    1
}

fn local() -> String {
    LOCAL.to_owned()
}

/// `[web]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebConfig {
    /// `None`: nothing listens.
    pub listen: Option<std::net::SocketAddr>,
    /// Whether `listen` may be an address that other machines reach.
    pub public: bool,
    /// Where recipients reach the pages. `None`: messages have no link to leave by.
    pub base_url: Option<String>,
    /// Holds the token that opens the pages for the operator. `None`: a credential or the environment may hold one.
    pub token_file: Option<PathBuf>,
    /// The catalogue whose days the page "what if" replays: one file or several. None: the events that the daemon knows.
    #[serde(deserialize_with = "one_or_several")]
    pub catalogue: Vec<PathBuf>,
}

/// The name of a file, or a list of them.
fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    struct Files;

    impl<'de> Visitor<'de> for Files {
        type Value = Vec<PathBuf>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the name of a file or a list of them")
        }

        fn visit_str<E>(self, name: &str) -> Result<Vec<PathBuf>, E> {
            Ok(vec![PathBuf::from(name)])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Vec<PathBuf>, A::Error> {
            let mut files = Vec::new();
            while let Some(name) = names.next_element()? {
                files.push(name);
            }
            Ok(files)
        }
    }

    deserializer.deserialize_any(Files)
}

/// `[operator]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OperatorConfig {
    /// Where notices go; without either there are none.
    pub email: Option<String>,
    pub webhook: Option<String>,
    /// The form of the webhook's messages.
    pub preset: String,
    /// Holds what signs them.
    pub webhook_secret_file: Option<PathBuf>,
    pub notices: Vec<Topic>,
    /// Messages in any hour; what comes beyond is told by the next.
    pub max_per_hour: u32,
}

/// Why a file is not a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the configuration {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: longer than {MAX_BYTES} bytes, which no configuration is")]
    TooLong { path: PathBuf },
    #[error("{path}: unknown key '{key}'{hint}")]
    UnknownKey { path: PathBuf, key: String, hint: String },
    #[error("{path}:{line}: {fault}")]
    Value { path: PathBuf, line: usize, fault: String },
}

impl Default for Config {
    fn default() -> Config {
        Config {
            database: None,
            database_password_file: None,
            ledger_days: 90,
            feed: FeedConfig::default(),
            email: EmailConfig::default(),
            webhook: WebhookConfig::default(),
            web: WebConfig::default(),
            operator: OperatorConfig::default(),
            limit: Vec::new(),
            redis: RedisConfig::default(),
        }
    }
}

impl Default for FeedConfig {
    fn default() -> FeedConfig {
        let likeness = Likeness::default();
        FeedConfig {
            url: "https://earthquake.usgs.gov/earthquakes/feed/v1.0/summary/4.5_day.geojson".into(),
            poll: Span::from_seconds(60),
            min_magnitude: crate::interest::Interest::default().min_magnitude,
            max_age: Span::from_seconds(86_400),
            first_run: FirstRun::Baseline,
            duplicate_within: likeness.within,
            duplicate_km: likeness.within_km,
            duplicate_magnitude: likeness.magnitudes,
            duplicate_for: likeness.patience,
            confirm_from: None,
            confirm_for: Span::from_seconds(600),
            contact: None,
            stale_after: Span::from_seconds(1_800),
            fdsn: None,
            ca_file: None,
        }
    }
}

impl Default for OperatorConfig {
    fn default() -> OperatorConfig {
        OperatorConfig {
            email: None,
            webhook: None,
            preset: "json".into(),
            webhook_secret_file: None,
            notices: Topic::ALL.to_vec(),
            max_per_hour: 6,
        }
    }
}

/// The known keys, a section at a time; the empty section is the top level.
const KEYS: [(&str, &[&str]); 8] = [
    ("", &["database", "database_password_file", "ledger_days", "feed", "email", "webhook", "web", "operator", "limit", "redis"]),
    (
        "feed",
        &[
            "url",
            "poll",
            "min_magnitude",
            "max_age",
            "first_run",
            "duplicate_within",
            "duplicate_km",
            "duplicate_magnitude",
            "duplicate_for",
            "confirm_from",
            "confirm_for",
            "contact",
            "stale_after",
            "fdsn",
            "ca_file",
        ],
    ),
    ("email", &["from", "smtp", "smtp_username", "smtp_password_file", "smtp_ca_file", "max_per_second"]),
    ("webhook", &["allow_private", "max_per_second_per_host", "hosts"]),
    ("web", &["listen", "public", "base_url", "token_file", "catalogue"]),
    ("operator", &["email", "webhook", "preset", "webhook_secret_file", "notices", "max_per_hour"]),
    (
        "limit",
        &[
            "name",
            "channel",
            "host",
            "tag",
            "all",
            "algorithm",
            "rate",
            "bucket",
            "counter_rule",
            "cost",
            "store",
            "outage",
            "instances",
        ],
    ),
    ("redis", &["password_file"]),
];

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`ConfigError`] naming the file, and the key or the line.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let wrap = |source| ConfigError::Read { path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(wrap)?.len() > MAX_BYTES {
            return Err(ConfigError::TooLong { path: path.to_owned() });
        }
        Config::parse(&std::fs::read_to_string(path).map_err(wrap)?, path)
    }

    /// Reads a configuration's text; `path` is for messages.
    ///
    /// # Errors
    /// [`ConfigError::UnknownKey`] with the nearest known one, or [`ConfigError::Value`] with the line.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let value = |fault: &toml::de::Error| {
            let line = text[..fault.span().map_or(0, |span| span.start)].matches('\n').count();
            let key = text.lines().nth(line).and_then(|line| line.split_once('=')).map_or("", |(key, _)| key.trim());
            ConfigError::Value { path: path.to_owned(), line: line + 1, fault: in_plain_words(key, fault.message()) }
        };
        let table: toml::Table = text.parse().map_err(|fault| value(&fault))?;
        if let Some((key, hint)) = unknown_key(&table) {
            return Err(ConfigError::UnknownKey { path: path.to_owned(), key, hint });
        }
        toml::from_str(text).map_err(|fault| value(&fault))
    }

    /// The database that a file names which is no configuration for another reason: as far as what stands before its first
    /// section can be read.
    #[must_use]
    pub fn database_of(path: &Path) -> Option<PathBuf> {
        let is_short = std::fs::metadata(path).is_ok_and(|about| about.len() <= MAX_BYTES);
        let text = is_short.then(|| std::fs::read_to_string(path).ok())??;
        let top: Vec<&str> = text.lines().take_while(|line| !line.trim_start().starts_with('[')).collect();
        let table: toml::Table = top.join("\n").parse().ok()?;
        table.get("database")?.as_str().map(PathBuf::from)
    }
}

/// The parser's message with the key and without words of the program's inside.
fn in_plain_words(key: &str, message: &str) -> String {
    let mut message = message
        .replace('\n', " ")
        .replace("f64", "a number")
        .replace("invalid socket address syntax", "expected an IP address and a port like 127.0.0.1:8080");
    if let Some((before, _)) = message.split_once("struct ") {
        message = format!("{before}a table like [{key}]");
    }
    if message == "invalid type: map, expected a sequence" {
        return "limit: expected tables like [[limit]], of which there may be several".to_owned();
    }
    if key.is_empty() { message } else { format!("{key}: {message}") }
}

/// The first key that is not known, with a hint at the nearest one that is.
fn unknown_key(table: &toml::Table) -> Option<(String, String)> {
    for (section, known) in KEYS {
        for key in tables_of(table, section).into_iter().flat_map(toml::Table::keys) {
            if !known.contains(&key.as_str()) {
                let prefix = if section.is_empty() { String::new() } else { format!("{section}.") };
                return Some((format!("{prefix}{key}"), hint(section, key)));
            }
        }
    }
    None
}

/// The tables of a section: none, one, or as many as there are of it.
fn tables_of<'t>(table: &'t toml::Table, section: &str) -> Vec<&'t toml::Table> {
    match table.get(section) {
        _ if section.is_empty() => vec![table],
        Some(toml::Value::Table(table)) => vec![table],
        Some(toml::Value::Array(tables)) => tables.iter().filter_map(toml::Value::as_table).collect(),
        _ => Vec::new(),
    }
}

fn hint(section: &str, key: &str) -> String {
    let paths = KEYS.iter().flat_map(|(section, keys)| keys.iter().map(move |key| (*section, *key)));
    // A key of the same section that looks alike, or the same key of another section.
    let nearness =
        |(other, candidate): (&str, &str)| strsim::jaro_winkler(key, candidate) - if other == section { 0.0 } else { 0.15 };
    let nearest = paths.max_by(|a, b| nearness(*a).total_cmp(&nearness(*b)));
    let mut hint = String::new();
    if let Some((section, key)) = nearest {
        let dot = if section.is_empty() { "" } else { "." };
        // Writing to a string does not fail.
        let _ = write!(hint, "; the nearest known one is '{section}{dot}{key}'");
    }
    hint
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("throttler.toml")).map_err(|fault| fault.to_string())
    }

    #[test]
    fn the_commented_default_is_the_default() {
        assert_eq!(parse(DEFAULT), Ok(Config::default()));
        // With every comment that is a setting taken in, each key is shown once.
        let all: String = DEFAULT.lines().map(|line| line.strip_prefix("#= ").unwrap_or(line).to_owned() + "\n").collect();
        let table: toml::Table = all.parse().expect("the default with its optional keys");
        for (section, keys) in KEYS {
            for key in keys {
                let within = tables_of(&table, section);
                assert!(within.iter().any(|table| table.contains_key(*key)), "{section}.{key} is not in the default");
            }
        }
        assert!(parse(&all).is_ok());
    }

    #[test]
    fn a_catalogue_is_one_file_or_several() {
        for (text, files) in [("\"a.csv\"", vec!["a.csv"]), ("[\"a.csv\", \"b.csv\"]", vec!["a.csv", "b.csv"]), ("[]", vec![])] {
            let config = parse(&format!("[web]\ncatalogue = {text}\n")).expect(text);
            assert_eq!(config.web.catalogue, files.into_iter().map(PathBuf::from).collect::<Vec<_>>(), "{text}");
        }
    }

    #[test]
    fn a_mistake_is_named_with_its_place() {
        for (text, message) in [
            ("[feed]\npol = \"60s\"\n", "throttler.toml: unknown key 'feed.pol'; the nearest known one is 'feed.poll'"),
            ("smtp = \"\"\n", "throttler.toml: unknown key 'smtp'; the nearest known one is 'email.smtp'"),
            ("databse = \"x\"\n", "throttler.toml: unknown key 'databse'; the nearest known one is 'database'"),
            (
                "\n[feed]\npoll = \"60\"\n",
                "throttler.toml:3: poll: '60' is not a duration: expected a whole number and a unit, like 90s, 15m, 24h or 7d",
            ),
            (
                "[feed]\nmin_magnitude = 99.0\n",
                "throttler.toml:2: min_magnitude: '99' is not a magnitude: expected a number from -10 to 12",
            ),
            (
                "[feed]\nfirst_run = \"later\"\n",
                "throttler.toml:2: first_run: unknown variant `later`, expected `baseline` or `alert`",
            ),
            ("[webhook]\nallow_private = 1\n", "throttler.toml:2: allow_private: invalid type: integer `1`, expected a boolean"),
            ("[feed]\nmin_magnitude = \"5\"\n", "throttler.toml:2: min_magnitude: invalid type: string \"5\", expected a number"),
            ("[web]\nlisten = \"8080\"\n", "throttler.toml:2: listen: expected an IP address and a port like 127.0.0.1:8080"),
            (
                "[operator]\nnotices = [\"stale-feed\", \"all\"]\n",
                "throttler.toml:2: notices: 'all' is not a notice: expected stale-feed, dead-destination or sustained-withholding",
            ),
            (
                "[operator]\nmail = \"a@b.c\"\n",
                "throttler.toml: unknown key 'operator.mail'; the nearest known one is 'operator.email'",
            ),
            (
                "[web]\ncatalogue = 5\n",
                "throttler.toml:2: catalogue: invalid type: integer `5`, expected the name of a file or a list of them",
            ),
            (
                "[[limit]]\nname = \"a\"\nrate = \"1/s\"\nchanel = \"email\"\n",
                "throttler.toml: unknown key 'limit.chanel'; the nearest known one is 'limit.channel'",
            ),
            ("[[limit]]\nrate = \"1/s\"\n", "throttler.toml:1: missing field `name`"),
            (
                "[[limit]]\nname = \"A b\"\nrate = \"1/s\"\n",
                "throttler.toml:2: name: 'A b' is no name of a limit: expected 1 to 40 small letters, digits, '_' or '-', starting with a letter or digit",
            ),
            ("feed = 5\n", "throttler.toml:1: feed: invalid type: integer `5`, expected a table like [feed]"),
        ] {
            assert_eq!(parse(text), Err(message.to_owned()));
        }
        assert!(parse("[feed\n").is_err_and(|message| message.starts_with("throttler.toml:1: ")));
    }
}
