//! The body of a one-click request (RFC 8058): the field `List-Unsubscribe` with the value `One-Click`, as a form in either of its
//! encodings. Whatever else is in it does not matter.

use url::form_urlencoded;

const FIELD: &str = "List-Unsubscribe";
const VALUE: &str = "One-Click";
/// The longest boundary between parts, in bytes (RFC 2046).
const MAX_BOUNDARY_BYTES: usize = 70;

/// Whether a body of this type asks to unsubscribe.
pub(super) fn is_one_click(content_type: &str, body: &[u8]) -> bool {
    let mut parameters = content_type.split(';').map(str::trim);
    match parameters.next().unwrap_or_default().to_ascii_lowercase().as_str() {
        "application/x-www-form-urlencoded" => form_urlencoded::parse(body).any(|(name, value)| name == FIELD && value == VALUE),
        "multipart/form-data" => {
            let boundary = parameters.find_map(|parameter| parameter_value(parameter, "boundary"));
            boundary.is_some_and(|boundary| in_parts(boundary, &String::from_utf8_lossy(body)))
        }
        _ => false,
    }
}

/// The value of `name=value` or `name="value"`, if it has this name.
fn parameter_value<'t>(parameter: &'t str, name: &str) -> Option<&'t str> {
    let (found, value) = parameter.split_once('=')?;
    found.trim().eq_ignore_ascii_case(name).then(|| value.trim().trim_matches('"'))
}

fn in_parts(boundary: &str, body: &str) -> bool {
    if boundary.is_empty() || boundary.len() > MAX_BOUNDARY_BYTES {
        return false;
    }
    // The first delimiter has no line before it.
    body.split(&format!("--{boundary}")).skip(1).any(|part| {
        let Some((head, value)) = part.split_once("\r\n\r\n") else { return false };
        value.trim_end_matches("\r\n") == VALUE && head.lines().any(names_the_field)
    })
}

fn names_the_field(line: &str) -> bool {
    let Some((name, value)) = line.split_once(':') else { return false };
    let mut parameters = value.split(';').map(str::trim);
    name.trim().eq_ignore_ascii_case("content-disposition")
        && parameters.next().is_some_and(|kind| kind.eq_ignore_ascii_case("form-data"))
        && parameters.any(|parameter| parameter_value(parameter, "name") == Some(FIELD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings_and_nothing_else() {
        let form = "application/x-www-form-urlencoded";
        let parts = "multipart/form-data; boundary=\"x-1\"";
        let part = "--x-1\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--x-1--\r\n";
        for (content_type, body, expected) in [
            (form, "List-Unsubscribe=One-Click", true),
            ("Application/X-WWW-Form-URLencoded; charset=utf-8", "a=b&List%2DUnsubscribe=One%2DClick", true),
            (parts, part, true),
            ("multipart/form-data; boundary=x-1", part, true),
            (form, "", false),
            (form, "List-Unsubscribe=", false),
            (form, "List-Unsubscribe=one-click-more", false),
            ("text/plain", "List-Unsubscribe=One-Click", false),
            ("", "List-Unsubscribe=One-Click", false),
            ("multipart/form-data", part, false),
            ("multipart/form-data; boundary=", part, false),
            ("multipart/form-data; boundary=x-2", part, false),
            (parts, "--x-1\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nOne-Click\r\n--x-1--\r\n", false),
            (parts, "--x-1\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nNo\r\n--x-1--\r\n", false),
        ] {
            assert_eq!(is_one_click(content_type, body.as_bytes()), expected, "{content_type}: {body:?}");
        }
    }
}
