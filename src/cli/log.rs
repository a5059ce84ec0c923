//! The daemon's log on standard error: a line an event, for a terminal, a file, or systemd's journal.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use tracing::field::Field;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{self, Format, FormatEvent, FormatFields, Full, Writer};
use tracing_subscriber::registry::LookupSpan;

use super::failure::Failure;
use crate::plain::one_line;

/// What is shown unless `$THROTTLER_LOG` says otherwise.
const DEFAULT: &str = "throttler=info,warn";
/// The longest value of a field, the message among them.
const MAX_VALUE_CHARS: usize = 4_000;

/// Writes the log to standard error from now on.
pub(super) fn init() -> Result<(), Failure> {
    let directives = std::env::var("THROTTLER_LOG").unwrap_or_else(|_| DEFAULT.to_owned());
    let filter = EnvFilter::try_new(&directives).map_err(|fault| {
        Failure::usage(format!("$THROTTLER_LOG is '{directives}': {fault}; expected levels like throttler=debug,warn"))
    })?;
    let ansi = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let fields = format::debug_fn(write_field).delimited(" ");
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).fmt_fields(fields);
    if is_journal() {
        subscriber.event_format(Journal(Format::default().without_time().with_level(false).with_ansi(false))).init();
    } else {
        subscriber.with_ansi(ansi).init();
    }
    Ok(())
}

/// Each field's value stays on its line, whoever it comes from: a place in the feed, a mail server's answer.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let value = one_line(&format!("{value:?}"), MAX_VALUE_CHARS);
    match field.name() {
        "message" => write!(writer, "{value}"),
        name => write!(writer, "{name}={value}"),
    }
}

/// Whether standard error is the stream to the journal that systemd says it is, and was not redirected since.
fn is_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let Some((device, inode)) = stream.split_once(':') else { return false };
    let about = io::stderr().as_fd().try_clone_to_owned().and_then(|stderr| File::from(stderr).metadata());
    about.is_ok_and(|about| device.parse() == Ok(about.dev()) && inode.parse() == Ok(about.ino()))
}

/// Lines as the journal takes them: it knows the time, and reads the level from the prefix of sd-daemon(3).
struct Journal(Format<Full, ()>);

impl<S, N> FormatEvent<S, N> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// Of syslog: error, warning, informational; debug for all below.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}
