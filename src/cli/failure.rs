//! How a command fails: one message on standard error, and the exit status of the contract.

use std::fmt::{self, Display};
use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::config::ConfigError;
use crate::daemon::{DaemonError, with_causes};
use crate::delivery::DeliveryError;
use crate::feed::FeedError;
use crate::store::StoreError;

/// Whose fault it is, which is the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blame {
    /// It failed while running.
    Running = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    /// The input data are bad.
    Data = 3,
}

/// A command that did not succeed.
#[derive(Debug)]
pub(super) struct Failure {
    blame: Blame,
    error: anyhow::Error,
}

impl Failure {
    /// Wrong usage, described by `message`.
    pub fn usage(message: impl Display) -> Failure {
        Failure { blame: Blame::Usage, error: anyhow::anyhow!("{message}") }
    }

    /// Wrong usage, with the error and its causes.
    pub fn wrong_usage(error: impl Into<anyhow::Error>) -> Failure {
        Failure { blame: Blame::Usage, error: error.into() }
    }

    /// Whose fault it is.
    pub const fn blame(&self) -> Blame {
        self.blame
    }

    /// Prints the message and gives the exit status. A reader that has gone away is no failure.
    pub fn report(&self) -> ExitCode {
        let broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
            cause.downcast_ref::<io::Error>().is_some_and(|fault| fault.kind() == io::ErrorKind::BrokenPipe)
        };
        if self.error.chain().any(broken_pipe) {
            return ExitCode::SUCCESS;
        }
        // Where nobody listens to errors any more, the status alone tells.
        let _ = writeln!(io::stderr(), "throttler: {self}");
        ExitCode::from(self.blame as u8)
    }
}

/// The message with its causes, in one line.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&with_causes(&*self.error))
    }
}

/// Gives an error its blame.
pub(super) trait Blamed<T> {
    /// The same error as a failure of this kind.
    fn blame(self, blame: Blame) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> Blamed<T> for Result<T, E> {
    fn blame(self, blame: Blame) -> Result<T, Failure> {
        self.map_err(|error| Failure { blame, error: error.into() })
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        let blame = match error {
            StoreError::NoSubscriber(_)
            | StoreError::Unsubscribed { .. }
            | StoreError::SubscriberExists(_)
            | StoreError::NoDelivery(_) => Blame::Usage,
            _ => Blame::Running,
        };
        Failure { blame, error: error.into() }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure { blame: Blame::Usage, error: error.into() }
    }
}

impl From<FeedError> for Failure {
    fn from(error: FeedError) -> Failure {
        let blame = match error {
            FeedError::CatalogueRow { .. } | FeedError::NotCatalogue { .. } => Blame::Data,
            FeedError::Part { .. } | FeedError::PartLocked { .. } => Blame::Running,
            _ if error.is_transient() => Blame::Running,
            _ => Blame::Usage,
        };
        Failure { blame, error: error.into() }
    }
}

impl From<DeliveryError> for Failure {
    fn from(error: DeliveryError) -> Failure {
        Failure { blame: Blame::Usage, error: error.into() }
    }
}

impl From<DaemonError> for Failure {
    fn from(error: DaemonError) -> Failure {
        match error {
            DaemonError::Feed(fault) => fault.into(),
            DaemonError::Store(fault) => fault.into(),
            DaemonError::PollsElsewhere | DaemonError::Slow(_) | DaemonError::Signals(_) => {
                Failure { blame: Blame::Running, error: error.into() }
            }
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure { blame: Blame::Running, error: error.into() }
    }
}
