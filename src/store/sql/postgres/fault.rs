//! Why a session did not do what it was asked.

use std::fmt;
use std::time::Duration;

/// What a server, or the way to it, says.
#[derive(Debug)]
pub enum Fault {
    Server(tokio_postgres::Error),
    /// Its certificate cannot be verified at all.
    Roots(String),
    /// Rows of a transaction that is to be committed were not sent.
    NotSent,
    /// A value is not of its column's type.
    Value(String),
    /// It does not answer for so long.
    Silent(Duration),
    /// What is to be committed was sent, and nothing tells what became of it.
    Unknown(Box<Fault>),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(fault: tokio_postgres::Error) -> Fault {
        Fault::Server(fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The library says only that it was the server's; what it was stands below.
            Fault::Server(fault) => match fault.as_db_error() {
                Some(fault) => f.write_str(fault.message()),
                None => write!(f, "{fault}"),
            },
            Fault::Roots(fault) | Fault::Value(fault) => f.write_str(fault),
            Fault::NotSent => f.write_str("not all rows were sent"),
            Fault::Silent(patience) => write!(f, "the server does not answer within {} s", patience.as_secs()),
            Fault::Unknown(fault) => write!(f, "whether it is done is not known: {fault}"),
        }
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Fault::Server(fault) if fault.as_db_error().is_none() => std::error::Error::source(fault),
            Fault::Unknown(fault) => fault.source(),
            _ => None,
        }
    }
}
