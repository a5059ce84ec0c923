//! The message of one alert as bytes (RFC 5322, in ASCII). The same alert to the same address gives the same bytes.

use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use lettre::address::AddressError;
use lettre::message::header::{ContentTransferEncoding, ContentType, HeaderName, HeaderValue};
use lettre::message::{Body, Mailbox, MultiPart, SinglePart};
use lettre::{Address as MailAddress, Message};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

use crate::alert::Alert;
use crate::delivery::render::{Rendered, render};
use crate::delivery::unsubscribe::Unsubscribe;
use crate::subscriber::Address;
use crate::time::Timestamp;

/// What may stand in a file name and on the left of a Message-ID as it is.
const ESCAPED_IN_ID: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');
/// The longest id that is used as it is, in bytes; of a longer one, its SHA-256.
const MAX_ID_BYTES: usize = 150;

/// A message ready to be handed over.
#[derive(Debug)]
pub(super) struct Composed {
    /// The alert's id in letters, digits, `-`, `_` and `%`: another for every other alert.
    pub id: String,
    pub from: MailAddress,
    pub to: MailAddress,
    /// Lines end in CRLF.
    pub bytes: Vec<u8>,
}

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub(super) enum ComposeError {
    #[error("the address is not one that mail can be sent to")]
    Address(#[source] AddressError),
    #[error("the headers do not fit together")]
    Headers(#[source] lettre::error::Error),
}

/// The message of `alert` to one recipient.
pub(super) fn compose(from: &Mailbox, to: &Address, alert: &Alert) -> Result<Composed, ComposeError> {
    let to: MailAddress = to.as_str().parse().map_err(ComposeError::Address)?;
    let unsubscribe = Unsubscribe::by_mail(from.email.as_ref(), &alert.subscriber).or_on(alert.unsubscribe_url.as_deref());
    let rendered = render(alert, &unsubscribe);
    let id = id_of(&alert.id);
    let message_id = |id: &str| format!("<{id}@{}>", from.email.domain());
    let mut builder = Message::builder()
        .from(from.clone())
        .to(Mailbox::new(None, to.clone()))
        .subject(rendered.subject.clone())
        .date(UNIX_EPOCH + since_epoch(alert.created_at))
        .message_id(Some(message_id(&id)))
        .raw_header(plain_header("Auto-Submitted", "auto-generated"));
    if !alert.is_notice() {
        let (leave, one_click) = unsubscribe.headers();
        builder = builder.raw_header(plain_header("List-Unsubscribe", &leave));
        if let Some(one_click) = one_click {
            builder = builder.raw_header(plain_header("List-Unsubscribe-Post", one_click));
        }
    }
    if let Some(first) = alert.follows() {
        // Mail programs show it under the message that first told of the event.
        let first = message_id(&id_of(first));
        builder = builder.in_reply_to(first.clone()).references(first);
    }
    let message = builder.multipart(parts(&id, rendered)).map_err(ComposeError::Headers)?;
    Ok(Composed { id, from: from.email.clone(), to, bytes: message.formatted() })
}

fn parts(id: &str, rendered: Rendered) -> MultiPart {
    // Quoted-printable text never holds "=_", so no body can end its part, and the boundary need not be random.
    let boundary = format!("=_{}", &sha256_hex(id)[..32]);
    let part = |content_type, text: String| {
        let body = Body::new_with_encoding(text, ContentTransferEncoding::QuotedPrintable)
            // Any text can be quoted-printable; what is given back otherwise is the text.
            .unwrap_or_else(|bytes| Body::dangerous_pre_encoded(bytes, ContentTransferEncoding::Binary));
        SinglePart::builder().content_type(content_type).body(body)
    };
    MultiPart::alternative()
        .boundary(boundary)
        .singlepart(part(ContentType::TEXT_PLAIN, rendered.text))
        .singlepart(part(ContentType::TEXT_HTML, rendered.html))
}

/// A header whose value is in ASCII and shorter than a line may be (998 bytes): it is not folded.
fn plain_header(name: &'static str, value: &str) -> HeaderValue {
    HeaderValue::dangerous_new_pre_encoded(HeaderName::new_from_ascii_str(name), value.to_owned(), value.to_owned())
}

fn id_of(alert_id: &str) -> String {
    let id = utf8_percent_encode(alert_id, ESCAPED_IN_ID).to_string();
    if id.len() <= MAX_ID_BYTES { id } else { sha256_hex(alert_id) }
}

fn sha256_hex(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string never fails.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The date of a message has no place for years before 1970.
fn since_epoch(at: Timestamp) -> Duration {
    Duration::from_secs(u64::try_from(at.seconds()).unwrap_or(0))
}
