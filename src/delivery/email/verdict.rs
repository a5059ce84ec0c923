//! What a failure in an SMTP conversation means for the alert and its subscriber. Pure.
//!
//! | where | answer | outcome |
//! |---|---|---|
//! | anywhere | none, 4xx, TLS | transient |
//! | before the transaction, login included | 5xx | transient: the operator's to repair, not the subscriber's fault |
//! | sender, recipient | 530 (log in first) | transient, for the same reason |
//! | recipient, content | 5xx with the enhanced status 5.1.1, 5.1.2, 5.1.3, 5.1.6, 5.1.10 or 5.2.1 | permanent, disables: there is no such mailbox |
//! | recipient | 521, 550, 551, 553, 556 without an enhanced status, and not about relaying or a login | permanent, disables |
//! | anything else | 5xx | permanent: this message, by its content or the server's policy |
//!
//! An enhanced status (RFC 3463) says more than the code: `550 5.7.1` is policy and `552 5.2.2` a full mailbox, and neither
//! is a subscriber who is gone. A 550 after the content without one is a rejection for policy (RFC 5321, section 4.3.2).
//! Exim says `550 relay not permitted` to whoever should have logged in, without a status, and about every recipient alike.

use std::error::Error;
use std::io;

use lettre::transport::smtp::Error as SmtpError;

use crate::delivery::causes::{find, innermost};
use crate::delivery::outcome::Outcome;

/// Words of refusals that are about the client, whoever the recipient is.
const ABOUT_THE_CLIENT: [&str; 2] = ["relay", "authenticat"];

/// Where in the conversation it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Connecting, implicit TLS, the greeting and EHLO.
    Connection,
    StartTls,
    Login,
    Sender,
    Recipient,
    Data,
    /// The message itself, and the answer to it.
    Content,
}

/// Why it failed.
#[derive(Debug)]
pub(super) enum Cause {
    Smtp(SmtpError),
    /// No connection could be made.
    Unreachable(io::Error),
    Stalled,
    /// The server lacks what the settings or the protocol ask for.
    Missing(&'static str),
}

/// A failed attempt.
#[derive(Debug)]
pub(super) struct Failure {
    step: Step,
    cause: Cause,
}

impl Failure {
    pub fn new(step: Step, cause: Cause) -> Failure {
        Failure { step, cause }
    }

    /// Whether the server answered and will answer again: a refusal, but not 421, after which it hangs up.
    pub fn leaves_the_session_intact(&self) -> bool {
        matches!(self.reply(), Some((code, _)) if code != 421)
    }

    /// The server's answer: the code and the words.
    fn reply(&self) -> Option<(u16, String)> {
        let Cause::Smtp(error) = &self.cause else { return None };
        Some((error.status()?.into(), error.source().map(ToString::to_string).unwrap_or_default()))
    }
}

impl Step {
    fn words(self) -> &'static str {
        match self {
            Step::Connection => "the connection",
            Step::StartTls => "STARTTLS",
            Step::Login => "the login",
            Step::Sender => "the sender",
            Step::Recipient => "the recipient",
            Step::Data | Step::Content => "the message",
        }
    }
}

/// The outcome of a message that the server took.
pub(super) fn accepted(host: &str, answer: &str) -> Outcome {
    Outcome::delivered(&format!("{host} accepted it: {answer}"))
}

/// The outcome of a failure.
pub(super) fn judge(host: &str, failure: &Failure) -> Outcome {
    let Some((code, words)) = failure.reply() else {
        return Outcome::host_failed(&no_reply(host, failure), None);
    };
    let what = failure.step.words();
    let before_the_message = matches!(failure.step, Step::Connection | Step::StartTls | Step::Login);
    if code < 500 {
        let reason = format!("{host} put off {what}: {code} {words}");
        // 421 is the server's goodbye, wherever it comes.
        return if before_the_message || code == 421 { Outcome::host_failed(&reason, None) } else { Outcome::transient(&reason) };
    }
    let reason = format!("{host} refused {what}: {code} {words}");
    match failure.step {
        Step::Connection | Step::StartTls | Step::Login => Outcome::host_failed(&reason, None),
        Step::Sender | Step::Recipient if code == 530 => Outcome::host_failed(&reason, None),
        Step::Sender | Step::Data => Outcome::permanent(&reason, false),
        Step::Recipient | Step::Content => Outcome::permanent(&reason, mailbox_is_gone(failure.step, code, &words)),
    }
}

fn mailbox_is_gone(step: Step, code: u16, words: &str) -> bool {
    match enhanced_status(words) {
        Some((1, 1 | 2 | 3 | 6 | 10) | (2, 1)) => true,
        Some(_) => false,
        None => step == Step::Recipient && matches!(code, 521 | 550 | 551 | 553 | 556) && !is_about_the_client(words),
    }
}

fn is_about_the_client(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    ABOUT_THE_CLIENT.iter().any(|word| words.contains(word))
}

/// Subject and detail of a status like `5.1.1` at the start of the words.
fn enhanced_status(words: &str) -> Option<(u16, u16)> {
    let mut numbers = words.split_whitespace().next()?.strip_prefix("5.")?.split('.');
    let status = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    numbers.next().is_none().then_some(status)
}

fn no_reply(host: &str, failure: &Failure) -> String {
    let ambiguous =
        if failure.step == Step::Content { " (it may have taken the message; a repeat has the same Message-ID)" } else { "" };
    let what = failure.step.words();
    match &failure.cause {
        Cause::Missing(what) => format!("{host}: {what}"),
        Cause::Stalled => format!("no answer from {host} in time to {what}{ambiguous}"),
        Cause::Unreachable(fault) => format!("no connection to {host}: {fault}"),
        Cause::Smtp(error) => match find::<rustls::Error>(error) {
            Some(fault) => {
                format!("no secure connection to {host}: {fault} (a private authority's certificate goes into ca_file)")
            }
            None if failure.step == Step::Connection => format!("no connection to {host}: {}", innermost(error)),
            None => format!("the connection to {host} broke at {what}: {}{ambiguous}", innermost(error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_is_gone_only_if_the_server_says_so() {
        for (step, code, words, gone) in [
            (Step::Recipient, 550, "no such user", true),
            (Step::Recipient, 551, "user not local", true),
            (Step::Recipient, 553, "mailbox name not allowed", true),
            (Step::Recipient, 550, "5.1.1 no such user", true),
            (Step::Recipient, 554, "5.1.2 no such host", true),
            (Step::Recipient, 550, "5.2.1 mailbox disabled", true),
            (Step::Content, 550, "5.1.1 no such user", true),
            (Step::Recipient, 550, "relay not permitted", false),
            (Step::Recipient, 550, "Relaying denied", false),
            (Step::Recipient, 550, "Authentication required", false),
            (Step::Recipient, 550, "5.1.8 bad sender", false),
            (Step::Recipient, 550, "5.7.1 relaying denied", false),
            (Step::Recipient, 552, "5.2.2 mailbox full", false),
            (Step::Recipient, 552, "mailbox full", false),
            (Step::Recipient, 554, "transaction failed", false),
            (Step::Content, 550, "looks like spam", false),
            (Step::Content, 554, "5.6.0 bad content", false),
            (Step::Recipient, 550, "5.1 is no status", true),
        ] {
            assert_eq!(mailbox_is_gone(step, code, words), gone, "{step:?} {code} {words}");
        }
    }
}
