//! Text from outside made safe for one line of a message, a log or a reason. What each format escapes is its own business.

/// One line of `text`, at most `max_chars` long: runs of white space and control characters become one space, characters
/// that are invisible or turn the direction of what follows are left out, and a cut is marked with `…`.
#[must_use]
pub fn one_line(text: &str, max_chars: usize) -> String {
    if text.len() <= max_chars && is_one_line(text.as_bytes()) {
        return text.to_owned();
    }
    let mut line = String::new();
    let mut length = 0;
    let mut gap = false;
    for c in text.chars().filter(|c| !is_invisible(*c)) {
        if c.is_whitespace() || c.is_control() {
            gap = length > 0;
            continue;
        }
        if length + usize::from(gap) + 1 > max_chars {
            // The mark takes the place of the last character.
            line.pop();
            line.push('…');
            return line;
        }
        if gap {
            line.push(' ');
            length += 1;
            gap = false;
        }
        line.push(c);
        length += 1;
    }
    line
}

/// Whether there is nothing to do, as mostly: visible ASCII with single spaces between.
fn is_one_line(text: &[u8]) -> bool {
    let mut before = b' ';
    let mut plain = true;
    for &byte in text {
        plain &= matches!(byte, b' '..=b'~') && (byte != b' ' || before != b' ');
        before = byte;
    }
    plain && text.last() != Some(&b' ')
}

/// `text` as it is, unless it holds a URL: then that URL down to its scheme and host, and not even the host where there may
/// be a user name and password. For many webhooks the path is the secret.
#[must_use]
pub fn without_url_secrets(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    // What stands before the last `@` may be a password, whatever it holds.
    if rest.contains('@') {
        return format!("{scheme}://…");
    }
    match rest.find(['/', '\\', '?', '#']) {
        Some(end) if end + 1 < rest.len() => format!("{scheme}://{}…", &rest[..=end]),
        _ => text.to_owned(),
    }
}

/// `text` with no more of an email address than its first character and its domain, for a page that shows no destination.
#[must_use]
pub fn without_addresses(text: &str) -> String {
    let is_local = |c: char| c.is_alphanumeric() || ".!#$%&'*+/=?^_`{|}~-".contains(c);
    let mut shown = String::with_capacity(text.len());
    let mut parts = text.split('@').peekable();
    while let Some(part) = parts.next() {
        let domain_follows = parts.peek().is_some_and(|next| next.starts_with(|c: char| c.is_alphanumeric() || c == '['));
        let local = part.trim_end_matches(is_local).len();
        match part[local..].chars().next().filter(|_| domain_follows) {
            Some(first) => {
                shown.push_str(&part[..local]);
                shown.push(first);
                shown.push('…');
            }
            None => shown.push_str(part),
        }
        if parts.peek().is_some() {
            shown.push('@');
        }
    }
    shown
}

/// Non-characters, zero-width spaces, marks and overrides of direction, and tags. The joiners stay: some scripts need them.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}'..='\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::{one_line, without_addresses, without_url_secrets};

    #[test]
    fn a_line_stays_a_line() {
        for (text, line) in [
            ("", ""),
            (" ", ""),
            ("12 km SSE of ~!", "12 km SSE of ~!"),
            (" a", "a"),
            ("a ", "a"),
            ("a  b", "a b"),
            ("a\u{7f}b", "a b"),
            ("  12 km\tSSE\r\n of  Ōfunato ", "12 km SSE of Ōfunato"),
            ("x\r\n.\r\nBcc: eve@example.org", "x . Bcc: eve@example.org"),
            ("a\u{2028}b\u{85}c\u{0}d\u{1b}[31m", "a b c d [31m"),
            ("\u{202e}evil\u{202c}\u{feff}", "evil"),
            ("a\u{200c}b", "a\u{200c}b"),
            ("a\u{fffe}\u{ffff}b", "ab"),
        ] {
            assert_eq!(one_line(text, 100), line, "{text:?}");
        }
    }

    #[test]
    fn a_cut_is_marked_and_within_bounds() {
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abcde…");
        assert_eq!(one_line("ab cd ef", 5), "ab c…");
        assert!(one_line(&"ä ".repeat(500), 40).chars().count() <= 40);
    }

    #[test]
    fn of_a_url_no_more_than_the_host_is_shown() {
        for (text, shown) in [
            ("anna@example.org", "anna@example.org"),
            ("https://example.org", "https://example.org"),
            ("https://example.org/", "https://example.org/"),
            ("https://hooks.example.org/T0/B0/secret?x=1", "https://hooks.example.org/…"),
            ("https://example.org?token=secret", "https://example.org?…"),
            ("https://anna:hunter2@example.org/hook", "https://…"),
            ("https://anna:hun/ter#2@example.org", "https://…"),
            ("https://anna:hun ter2@example.org", "https://…"),
        ] {
            assert_eq!(without_url_secrets(text), shown, "{text:?}");
        }
    }

    #[test]
    fn of_an_address_no_more_than_the_domain_is_shown() {
        for (text, shown) in [
            ("", ""),
            ("anna@example.org", "a…@example.org"),
            ("550 5.1.1 <anna.k+quakes@example.org>: unknown, or b@x.org", "550 5.1.1 <a…@example.org>: unknown, or b…@x.org"),
            ("ä.ö@example.org took it", "ä…@example.org took it"),
            ("a@b@c.org", "a…@b…@c.org"),
            ("@", "@"),
            ("5 @ 3", "5 @ 3"),
            ("5@ 3, @home", "5@ 3, @home"),
        ] {
            assert_eq!(without_addresses(text), shown, "{text:?}");
        }
    }
}
