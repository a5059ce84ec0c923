//! Where a server wants a text otherwise than `SQLite`.

/// A text in a server's dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Translated {
    pub sql: String,
    /// The parameters in the order of their numbers there.
    pub parameters: Vec<Parameter>,
}

/// A parameter as the text has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parameter {
    /// `?1`: counted from 0.
    Number(usize),
    /// `:name`, with the colon.
    Name(String),
}

/// - Parameters have numbers: `?7` and `:name` become `$1`, `$2` … as they first appear.
/// - `CROSS JOIN … ON` tells `SQLite` in which order to look; a server knows better, and takes it for something else.
/// - `column -> '$.a.b'` and `->>` reach into JSON text, which a server wants to be told: `column::json #> '{a,b}'`.
/// - `/*+ … */` is for a server alone: locks on rows, which nobody needs who is the only writer. Its parameters stand elsewhere
///   in the text too.
pub(super) fn translate(sql: &str) -> Translated {
    let mut translated = Translated { sql: String::with_capacity(sql.len()), parameters: Vec::new() };
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        rest = if let Some(told) = rest.strip_prefix("/*+").or_else(|| rest.strip_prefix("*/")) {
            told
        } else if let Some(after) = rest.strip_prefix("::") {
            translated.sql.push_str("::");
            after
        } else if let Some(after) = rest.strip_prefix("CROSS JOIN") {
            translated.sql.push_str("JOIN");
            after
        } else if let Some((path, operator, after)) = json_path(rest) {
            translated.sql.extend(["::json ", operator, " '{", &path.replace('.', ","), "}'"]);
            after
        } else if first == '\'' {
            let end = rest[1..].find('\'').map_or(rest.len(), |end| end + 2);
            translated.sql.push_str(&rest[..end]);
            &rest[end..]
        } else if let Some((parameter, after)) = parameter(rest) {
            let known = translated.parameters.iter().position(|known| *known == parameter);
            let number = known.unwrap_or_else(|| {
                translated.parameters.push(parameter);
                translated.parameters.len() - 1
            });
            translated.sql.extend(["$", &(number + 1).to_string()]);
            after
        } else {
            translated.sql.push(first);
            &rest[first.len_utf8()..]
        };
    }
    translated
}

/// ` -> '$.a.b'`: the path, the server's operator, and what comes after.
fn json_path(rest: &str) -> Option<(&str, &'static str, &str)> {
    let (operator, path) = match rest.strip_prefix(" ->> '$.") {
        Some(path) => ("#>>", path),
        None => ("#>", rest.strip_prefix(" -> '$.")?),
    };
    let (path, after) = path.split_once('\'')?;
    Some((path, operator, after))
}

/// A parameter at the beginning, and what comes after it.
fn parameter(rest: &str) -> Option<(Parameter, &str)> {
    let end = |of: &str, within: fn(char) -> bool| of[1..].find(|c| !within(c)).map_or(of.len(), |end| end + 1);
    if rest.starts_with('?') {
        let end = end(rest, |c| c.is_ascii_digit());
        let number: usize = rest[1..end].parse().ok()?;
        return Some((Parameter::Number(number.checked_sub(1)?), &rest[end..]));
    }
    if !rest.starts_with(':') {
        return None;
    }
    let end = end(rest, |c| c.is_ascii_alphanumeric() || c == '_');
    (end > 1).then(|| (Parameter::Name(rest[..end].to_owned()), &rest[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_the_same_in_the_servers_dialect() {
        for (sql, expected, parameters) in [
            ("SELECT ?2, ?1, ?2", "SELECT $1, $2, $1", "?2 ?1"),
            ("SET a = :b, c = ':d' || :bc WHERE e = :b", "SET a = $1, c = ':d' || $2 WHERE e = $1", ":b :bc"),
            ("a CROSS JOIN b ON a.c = b.c", "a JOIN b ON a.c = b.c", ""),
            ("o.alert ->> '$.content.event'", "o.alert::json #>> '{content,event}'", ""),
            ("s.settings -> '$.destination' AS d", "s.settings::json #> '{destination}' AS d", ""),
            ("WHERE a < ?1/*+ AND b < ?1 FOR UPDATE*/ OR c", "WHERE a < $1 AND b < $1 FOR UPDATE OR c", "?1"),
            ("é '?1' a::text", "é '?1' a::text", ""),
        ] {
            let translated = translate(sql);
            assert_eq!(translated.sql, expected, "{sql}");
            let named = translated.parameters.iter().map(|parameter| match parameter {
                Parameter::Number(number) => format!("?{}", number + 1),
                Parameter::Name(name) => name.clone(),
            });
            assert_eq!(named.collect::<Vec<_>>().join(" "), parameters, "{sql}");
        }
    }
}
