//! From the command line and the configuration file to what the daemon is made of.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Global;
use super::failure::{Blame, Blamed, Failure};
use crate::catalogue::Source;
use crate::channel::Channel;
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, FeedConfig};
use crate::daemon::{Contact, Egress, GapCloser, Operator, Polling, Sending, Settings, Vanished};
use crate::delivery::{
    BaseUrl, Delivery, DeliveryError, EmailChannel, EmailSender, EmailSettings, MailTransport, Password, Sender, UnsubscribeKey,
    UnsubscribeLinks, WebhookSecret, WebhookSender, WebhookSettings, address_guard, check_preset,
};
use crate::feed::fdsn::{Fdsn, FdsnUrl};
use crate::feed::{Feed, FeedUrl, Settings as FeedSettings};
use crate::identity::unlinked::Likeness;
use crate::limiter::{Algorithm, Limit};
use crate::news::{Confirmation, EventRules};
use crate::notice::Way;
use crate::plain::without_url_secrets;
use crate::rate::Rate;
use crate::store::{Location, ServerUrl, Store};
use crate::subscriber::{Address, Destination, Preset, WebhookUrl};
use crate::time::{Span, Timestamp};
use crate::web::{Access, History, Token};

/// Where a configuration is looked for when none is named.
const DEFAULT_CONFIGS: [&str; 2] = ["throttler.toml", SYSTEM_CONFIG];
/// The installed service's configuration, and where its state is: what an operator calls without either works on both.
const SYSTEM_CONFIG: &str = "/etc/throttler/throttler.toml";
const SYSTEM_STATE: &str = "/var/lib/throttler";
const PASSWORD: Secret =
    Secret { what: "the mail server's password", credential: "smtp_password", variable: "THROTTLER_SMTP_PASSWORD" };
const DATABASE_PASSWORD: Secret =
    Secret { what: "the database's password", credential: "database_password", variable: "THROTTLER_DATABASE_PASSWORD" };
const WEB_TOKEN: Secret = Secret { what: "the token of the pages", credential: "web_token", variable: "THROTTLER_WEB_TOKEN" };
const OPERATOR_SECRET: Secret = Secret {
    what: "the secret of the operator's webhook",
    credential: "operator_webhook_secret",
    variable: "THROTTLER_OPERATOR_WEBHOOK_SECRET",
};

pub(super) const REDIS_PASSWORD: Secret =
    Secret { what: "the Redis server's password", credential: "redis_password", variable: "THROTTLER_REDIS_PASSWORD" };

/// What the file with the key of the links is called, after the database.
const KEY_SUFFIX: &str = ".unsubscribe-key";

/// The configuration in force, and the file it came from.
pub(super) struct Loaded {
    pub config: Config,
    pub path: Option<PathBuf>,
}

/// A secret that comes from a configured file, a systemd credential, or the environment, the first of them that is there.
pub(super) struct Secret {
    what: &'static str,
    credential: &'static str,
    variable: &'static str,
}

impl Secret {
    /// A line feed at the end of a file is not part of it.
    pub fn read(&self, file: Option<&Path>) -> Result<Option<String>, Failure> {
        let credential = || {
            let path = PathBuf::from(std::env::var_os("CREDENTIALS_DIRECTORY")?).join(self.credential);
            path.exists().then_some(path)
        };
        if let Some(path) = file.map(Path::to_owned).or_else(credential) {
            let text = std::fs::read_to_string(&path)
                .map_err(|fault| anyhow::anyhow!("cannot read {} from {}: {fault}", self.what, path.display()))
                .blame(Blame::Usage)?;
            return Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()));
        }
        Ok(std::env::var(self.variable).ok())
    }
}

impl Loaded {
    /// Reads the named configuration, or the first that is there of the default ones, or the defaults.
    pub fn read(global: &Global) -> Result<Loaded, Failure> {
        let path = global.config.clone().or_else(found);
        let config = match &path {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        Ok(Loaded { config, path })
    }

    /// The same for whoever can do without most of it: in place of a bad one only what it says of the database, and what is
    /// wrong with it.
    pub fn read_anyhow(global: &Global) -> (Loaded, Option<Failure>) {
        Loaded::read(global).map_or_else(
            |fault| {
                let path = global.config.clone().or_else(found);
                let database = path.as_deref().and_then(Config::database_of);
                (Loaded { config: Config { database, ..Config::default() }, path }, Some(fault))
            },
            |loaded| (loaded, None),
        )
    }

    /// Names a key where it is set, for messages.
    pub fn at(&self, key: &str) -> String {
        let file = self.path.as_deref().unwrap_or_else(|| Path::new("the defaults"));
        format!("{}: {key}", file.display())
    }

    /// The feed's address and the time between polls, checked against each other.
    pub fn feed_url(&self) -> Result<FeedUrl, Failure> {
        let url: FeedUrl =
            self.config.feed.url.parse().map_err(|fault| Failure::usage(format!("{}: {fault}", self.at("feed.url"))))?;
        if self.config.feed.poll < url.min_poll() {
            let (poll, least) = (self.config.feed.poll, url.min_poll());
            return Err(Failure::usage(format!(
                "{}: {poll} is too often for {url}, expected {least} or more",
                self.at("feed.poll")
            )));
        }
        Ok(url)
    }

    /// The feed, ready to be polled.
    pub fn feed(&self, last_generated_at: Option<Timestamp>) -> Result<Feed, Failure> {
        Ok(Feed::new(self.feed_url()?, &FeedSettings { last_generated_at, ..self.feed_settings() })?)
    }

    /// How the feed's service is asked.
    pub fn feed_settings(&self) -> FeedSettings {
        let FeedConfig { contact, ca_file, .. } = &self.config.feed;
        FeedSettings { contact: contact.clone(), ca_file: ca_file.clone(), ..FeedSettings::default() }
    }

    /// The FDSN event service beside the feed: the configured one, else the USGS's for a feed of theirs, else none.
    pub fn fdsn_url(&self) -> Result<Option<FdsnUrl>, Failure> {
        match &self.config.feed.fdsn {
            Some(text) => text.parse().map(Some).map_err(|fault| Failure::usage(format!("{}: {fault}", self.at("feed.fdsn")))),
            None => Ok(self.feed_url()?.fdsn()),
        }
    }

    /// The FDSN event service beside the feed, ready to be asked.
    pub fn fdsn(&self) -> Result<Option<Fdsn>, Failure> {
        self.fdsn_url()?.map(|url| Fdsn::new(url, &self.feed_settings())).transpose().map_err(Failure::from)
    }

    /// Which events are recorded and can be news.
    pub fn event_rules(&self) -> Result<EventRules, Failure> {
        let feed = &self.config.feed;
        let likeness = Likeness {
            within: feed.duplicate_within,
            within_km: feed.duplicate_km,
            magnitudes: feed.duplicate_magnitude,
            patience: feed.duplicate_for,
        };
        let confirm = feed.confirm_from.map(|from| Confirmation { from, wait: feed.confirm_for });
        likeness.check().map_err(|fault| Failure::usage(self.at(&format!("feed.{fault}"))))?;
        Ok(EventRules { min_magnitude: feed.min_magnitude, max_age: feed.max_age, first_run: feed.first_run, likeness, confirm })
    }

    /// How far the ledger reaches back; `None`: for ever.
    pub fn ledger(&self) -> Result<Option<Span>, Failure> {
        const DAY: u64 = 86_400;
        let days = self.config.ledger_days;
        if days == 0 {
            return Ok(None);
        }
        // Who was asked about an event must be known as long as it may be news.
        let least = self.config.feed.max_age.ticks().div_ceil(Span::from_seconds(DAY).ticks()) + 1;
        if u64::from(days) < least {
            let message = format!("ledger_days: {days} is too short for feed.max_age: expected at least {least}, or 0 for ever");
            return Err(Failure::usage(self.at(&message)));
        }
        Ok(Some(Span::from_seconds(u64::from(days) * DAY)))
    }

    /// What a daemon takes over of it, also while it runs; `key` is asked for where messages have links to leave by.
    pub fn settings(&self, key: impl FnOnce() -> Result<UnsubscribeKey, Failure>) -> Result<Settings, Failure> {
        let fdsn = self.fdsn()?.map(|fdsn| Arc::new(fdsn.impatient()));
        let polling = Polling {
            feed: self.feed(None)?,
            rules: self.event_rules()?,
            gaps: GapCloser::new(self.feed_settings(), fdsn.clone()),
            vanished: Vanished::new(fdsn),
            poll: self.config.feed.poll,
            stale_after: self.config.feed.stale_after,
        };
        let egress = self.egress()?;
        Ok(Settings { polling, sending: Sending { delivery: Arc::new(self.delivery(key)?), egress } })
    }

    /// The channels that alerts leave by; `key` is asked for where messages have links to leave by.
    pub fn delivery(&self, key: impl FnOnce() -> Result<UnsubscribeKey, Failure>) -> Result<Delivery, Failure> {
        let base = self.check_web()?;
        let channels = self.channels()?;
        let links = base.map(|base| Ok::<_, Failure>(UnsubscribeLinks { base, key: key()? })).transpose()?;
        Ok(Delivery { links, ..channels })
    }

    /// The same for messages that have no link to leave by: those to the operator.
    pub fn channels(&self) -> Result<Delivery, Failure> {
        let mut webhook = WebhookSettings { allow_private: self.config.webhook.allow_private, ..WebhookSettings::default() };
        let email = match self.email_settings()? {
            Some(settings) => {
                settings.from.address().clone_into(&mut webhook.sender);
                EmailChannel::Sender(Box::new(EmailSender::new(&settings)?))
            }
            None => EmailChannel::Log,
        };
        Ok(Delivery { email, webhook: WebhookSender::new(webhook)?, links: None })
    }

    /// Checks what the configuration says of the web: where its pages are for recipients, if it has any.
    pub fn check_web(&self) -> Result<Option<BaseUrl>, Failure> {
        let web = &self.config.web;
        if let Some(listen) = web.listen
            && !listen.ip().is_loopback()
            && !web.public
        {
            return Err(Failure::usage(format!(
                "{}: {listen} is not a loopback address; expected one like 127.0.0.1:8080, or public = true beside it",
                self.at("web.listen")
            )));
        }
        let needs_address = [("base_url", web.base_url.is_some()), ("catalogue", !web.catalogue.is_empty())];
        if let Some((key, _)) = needs_address.into_iter().find(|(_, is_set)| *is_set && web.listen.is_none()) {
            let at = self.at("web.listen");
            return Err(Failure::usage(format!(
                "{at}: expected an address, since web.{key} is set and nothing would answer there"
            )));
        }
        let Some(base) = &web.base_url else { return Ok(None) };
        base.parse().map(Some).map_err(|fault| Failure::usage(format!("{}: {fault}", self.at("web.base_url"))))
    }

    /// The key of the links to leave by: in a file beside the database, made if there is none. Daemons on one server have the
    /// first one's, so that a link leads to any of them.
    pub fn unsubscribe_key(&self, global: &Global) -> Result<UnsubscribeKey, Failure> {
        let at = self.database(global)?;
        let mut path = self.files(&at).into_os_string();
        path.push(KEY_SUFFIX);
        let own = UnsubscribeKey::open(Path::new(&path))?;
        if let Location::File(_) = at {
            return Ok(own);
        }
        let shared = Store::open(at)?.shared_link_key(&own.expose())?;
        shared.parse().map_err(Failure::usage)
    }

    /// The limits on what leaves by each channel.
    pub fn egress(&self) -> Result<Egress, Failure> {
        let per_second = |key: &str, limit: Option<u32>| {
            let rate = limit.map(|limit| Rate::new(limit.into(), Span::from_seconds(1))).transpose();
            rate.map_err(|fault| Failure::usage(format!("{}: {fault}", self.at(key))))
        };
        let Config { email, webhook, .. } = &self.config;
        Ok(Egress {
            email: per_second("email.max_per_second", email.max_per_second)?,
            per_host: per_second("webhook.max_per_second_per_host", webhook.max_per_second_per_host)?,
            hosts: webhook
                .hosts
                .iter()
                .map(|(host, rate)| Ok((self.host("webhook.hosts", host)?, *rate)))
                .collect::<Result<_, Failure>>()?,
            limits: self.limits()?,
            store: self.limit_store()?.map(Arc::new),
        })
    }

    /// A host in the form in which channels have it.
    pub fn host(&self, key: &str, text: &str) -> Result<String, Failure> {
        let url = format!("https://{text}/").parse::<WebhookUrl>().ok().filter(|url| url.as_url().path() == "/");
        let channel = url.map(|url| Channel::of(&Destination::Webhook(url)));
        channel.as_ref().and_then(Channel::host).map(str::to_owned).ok_or_else(|| {
            let at = self.at(key);
            Failure::usage(format!("{at}: '{text}' is not a host: expected one like hooks.example.org, or with its port"))
        })
    }

    /// Checks what the configuration says of the channels, without touching what it points to.
    pub fn check_delivery(&self) -> Result<(), Failure> {
        if let Some(settings) = self.email_settings()?
            && matches!(settings.smtp, MailTransport::Smtp(_))
        {
            // Reads the certificates; connects to nobody.
            EmailSender::new(&settings)?;
        }
        Ok(())
    }

    fn email_settings(&self) -> Result<Option<EmailSettings>, Failure> {
        let email = &self.config.email;
        let Some(smtp) = &email.smtp else {
            return Ok(None);
        };
        let wrong = |key: &str, fault: DeliveryError| Failure::usage(format!("{}: {fault}", self.at(key)));
        let smtp: MailTransport = smtp.parse().map_err(|fault| wrong("email.smtp", fault))?;
        let Some(from) = &email.from else {
            return Err(Failure::usage(format!("{}: expected a sender, since email.smtp is set", self.at("email.from"))));
        };
        let from: Sender = from.parse().map_err(|fault| wrong("email.from", fault))?;
        let mut settings = EmailSettings::new(from, smtp);
        settings.username = email.smtp_username.clone().or(settings.username);
        if settings.username.is_some() {
            settings.password = self.password()?;
        }
        settings.ca_file.clone_from(&email.smtp_ca_file);
        Ok(Some(settings))
    }

    /// The mail server's password.
    fn password(&self) -> Result<Option<Password>, Failure> {
        let text = PASSWORD.read(self.config.email.smtp_password_file.as_deref())?;
        Ok(text.map(Password::from))
    }

    /// Who sees the pages for the operator at this address.
    pub fn web_access(&self, listen: SocketAddr) -> Result<Access, Failure> {
        let text = WEB_TOKEN.read(self.config.web.token_file.as_deref())?;
        let token = text.map(|text| text.parse::<Token>()).transpose();
        let token = token.map_err(|fault| Failure::usage(format!("{}: {fault}", self.at("web.token_file"))))?;
        Ok(Access::new(listen, token))
    }

    /// What the page "what if" looks back on: the configured catalogue, which is read now, or what the daemon has seen.
    pub fn history(&self) -> Result<History, Failure> {
        let files = &self.config.web.catalogue;
        if files.is_empty() {
            return Ok(History::of_the_daemon());
        }
        Ok(History::read(files.iter().cloned().map(Source::File).collect())?)
    }

    /// Who is told of the service itself, if anybody is.
    pub fn operator(&self) -> Result<Option<Operator>, Failure> {
        let operator = &self.config.operator;
        let wrong = |key: &str, fault: &dyn std::fmt::Display| Failure::usage(format!("{}: {fault}", self.at(key)));
        let mut contacts = Vec::new();
        if let Some(email) = &operator.email {
            let address: Address = email.parse().map_err(|fault| wrong("operator.email", &fault))?;
            if self.config.email.smtp.is_none() {
                return Err(wrong("email.smtp", &"expected where mail goes, since operator.email is set"));
            }
            let destination = Destination::Email(address);
            contacts.push(Contact { way: Way::Email, destination, preset: Preset::Json, secrets: Vec::new() });
        }
        if let Some(webhook) = &operator.webhook {
            contacts.push(self.operator_hook(webhook)?);
        }
        let rate = Rate::new(operator.max_per_hour.into(), Span::from_seconds(3_600));
        let limit = rate.map(|rate| Limit::new(Algorithm::SlidingLog, rate, None));
        let limit = limit.map_err(|fault| wrong("operator.max_per_hour", &fault))?;
        let limit = limit.map_err(|fault| wrong("operator.max_per_hour", &fault))?;
        let topics = operator.notices.iter().copied().collect();
        Ok((!contacts.is_empty()).then_some(Operator { contacts, topics, limit }))
    }

    fn operator_hook(&self, webhook: &str) -> Result<Contact, Failure> {
        let wrong = |key: &str, fault: &dyn std::fmt::Display| Failure::usage(format!("{}: {fault}", self.at(key)));
        let url: WebhookUrl = webhook.parse().map_err(|fault| wrong("operator.webhook", &fault))?;
        let allow_private = self.config.webhook.allow_private;
        address_guard::check_url(url.as_url(), allow_private).map_err(|fault| wrong("operator.webhook", &fault))?;
        let preset = match self.config.operator.preset.as_str() {
            "json" => Preset::Json,
            "slack" => Preset::Slack,
            "discord" => Preset::Discord,
            "ntfy" => Preset::Ntfy,
            "cap" => {
                let fault =
                    "cap is the form of alerts, and a notice about the service is none; expected json, slack, discord or ntfy";
                return Err(wrong("operator.preset", &fault));
            }
            other => {
                let fault = format!("'{other}' is no form of notices; expected json, slack, discord or ntfy");
                return Err(wrong("operator.preset", &fault));
            }
        };
        let destination = Destination::Webhook(url);
        check_preset(&destination, &preset).map_err(|fault| wrong("operator.webhook", &fault))?;
        let file = self.config.operator.webhook_secret_file.as_deref();
        let found = OPERATOR_SECRET.read(file)?;
        let fault = format!(
            "expected a secret to sign with, since operator.webhook is set: in a file, the credential \
             {}, or ${}",
            OPERATOR_SECRET.credential, OPERATOR_SECRET.variable
        );
        let secret: WebhookSecret = found
            .ok_or_else(|| wrong("operator.webhook_secret_file", &fault))?
            .parse()
            .map_err(|fault: DeliveryError| wrong("operator.webhook_secret_file", &fault))?;
        Ok(Contact { way: Way::Webhook, destination, preset, secrets: vec![secret] })
    }

    /// Where the database is: as the flag says, or the configuration, or in `throttler.db` in the state directory.
    pub fn database(&self, global: &Global) -> Result<Location, Failure> {
        match (&global.database, &self.config.database) {
            (Some(path), _) => self.location("--database", path),
            (None, Some(path)) => self.location(&self.at("database"), path),
            (None, None) => Ok(Location::File(self.state_directory().join("throttler.db"))),
        }
    }

    /// What a text says of where a database is: the name of a file, or the address of a server, whose password is secret. `at`
    /// says where the text stands.
    pub fn location(&self, at: &str, text: &Path) -> Result<Location, Failure> {
        let Some(url) = text.to_str().filter(|text| ServerUrl::is_one(text)) else {
            return match text.to_string_lossy() {
                // Nobody means a file by that, of which messages would tell with all that is secret in it.
                url if url.contains("://") => Err(Failure::usage(format!(
                    "{at}: '{}' is no database: expected a file, or postgres://USER@HOST/DATABASE",
                    without_url_secrets(&url)
                ))),
                _ => Ok(text.into()),
            };
        };
        let url: ServerUrl = url.parse().map_err(|fault| Failure::usage(format!("{at}: {fault}")))?;
        if url.has_password() {
            return Err(Failure::usage(format!(
                "{at}: the password of {url} does not belong into the address; expected it in database_password_file, the \
                 credential {}, or ${}",
                DATABASE_PASSWORD.credential, DATABASE_PASSWORD.variable
            )));
        }
        url.check().map_err(|fault| Failure::usage(format!("{at}: {fault}")))?;
        let password = DATABASE_PASSWORD.read(self.config.database_password_file.as_deref())?;
        Ok(password.map_or(url.clone(), |password| url.with_password(&password)).into())
    }

    /// Where a daemon has its files, as the beginning of their names: beside the database, or in the state directory.
    pub fn files(&self, database: &Location) -> PathBuf {
        match database {
            Location::File(path) => path.clone(),
            Location::Server(_) => self.state_directory().join("throttler"),
        }
    }

    fn state_directory(&self) -> PathBuf {
        state_directory(std::env::var("STATE_DIRECTORY").ok().as_deref(), self.path.as_deref())
    }
}

/// The first default configuration that is there.
fn found() -> Option<PathBuf> {
    DEFAULT_CONFIGS.iter().map(PathBuf::from).find(|path| path.exists())
}

/// Where state is: where systemd says, for the installed service's configuration where the service has it, else here.
fn state_directory(systemd: Option<&str>, configuration: Option<&Path>) -> PathBuf {
    // systemd lists several with colons; the first is ours.
    let told = systemd.and_then(|all| all.split(':').next()).map(PathBuf::from);
    let installed = configuration.is_some_and(|path| path == Path::new(SYSTEM_CONFIG));
    told.or_else(|| installed.then(|| PathBuf::from(SYSTEM_STATE))).unwrap_or_default()
}

/// The store that a command without a daemon works on, created if there is none.
pub(super) fn open_store(global: &Global) -> Result<Store, Failure> {
    Ok(Store::open(Loaded::read(global)?.database(global)?)?)
}

/// The store of a command that only looks: it does not create one.
pub(super) fn open_existing_store(global: &Global) -> Result<Store, Failure> {
    open_existing(&Loaded::read(global)?.database(global)?)
}

/// The same of a database of which it is known where it is.
pub(super) fn open_existing(at: &Location) -> Result<Store, Failure> {
    if let Location::File(path) = at
        && !path.exists()
    {
        let path = path.display();
        return Err(Failure::usage(format!(
            "there is no database {path}; `throttler run` or `throttler subscriber add` makes one"
        )));
    }
    Ok(Store::open_existing(at)?)
}

/// What time it is for whoever works on this store: its server's clock tells, where it has one, so that what an operator changes
/// stands in order with what daemons decide.
pub(super) fn now_by(store: &Store) -> Result<Timestamp, Failure> {
    Ok(store.time()?.unwrap_or_else(|| SystemClock.now()))
}

/// The cryptography of TLS, installed once for the process.
pub(super) fn install_crypto() {
    // Only a second installation fails, and then the first one serves.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_work_on_the_installed_services_state() {
        let of =
            |systemd, configuration: Option<&str>| state_directory(systemd, configuration.map(Path::new)).display().to_string();
        assert_eq!(of(Some("/state/a:/state/b"), Some(SYSTEM_CONFIG)), "/state/a");
        assert_eq!(of(None, Some(SYSTEM_CONFIG)), "/var/lib/throttler");
        assert_eq!(of(None, Some("throttler.toml")), "", "here");
        assert_eq!(of(None, None), "", "here");
    }
}
