//! Walking down to the cause of an error of another library.

use std::error::Error;
use std::io;

/// The first cause of type `E`, `error` itself included.
pub(super) fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    chain(error).find_map(<dyn Error>::downcast_ref)
}

/// The cause at the bottom: the operating system's or the TLS library's own words.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    chain(error).last().map(ToString::to_string).unwrap_or_default()
}

/// An I/O error does not give what it wraps as its source, but skips to that one's source.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&e| match e.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
        None => e.source(),
    })
}
