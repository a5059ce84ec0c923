//! Rust source as far as the rules need it: tokens without comments and literals, and the paths that they form.

/// A word or a sign, and the line it stands on, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

/// A path like `crate::store::Store`; `use` groups are taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub segments: Vec<String>,
    pub line: usize,
}

/// The code before the file's unit tests, which may use what they like.
pub fn without_unit_tests(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod tests").map_or(text, |at| &text[..at])
}

/// The tokens of a text; `::` is one, literals and comments are none.
pub fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < chars.len() {
        let end = match chars[at] {
            c if c == '_' || c.is_alphabetic() => {
                let end = word_end(&chars, at);
                literal_behind(&chars, at, end).unwrap_or_else(|| {
                    found.push(Token { text: chars[at..end].iter().collect(), line });
                    end
                })
            }
            c if c.is_ascii_digit() => word_end(&chars, at),
            '"' => string_end(&chars, at),
            '\'' => quote_end(&chars, at),
            '/' if chars.get(at + 1) == Some(&'/') => line_end(&chars, at),
            '/' if chars.get(at + 1) == Some(&'*') => block_comment_end(&chars, at),
            ':' if chars.get(at + 1) == Some(&':') => {
                found.push(Token { text: "::".into(), line });
                at + 2
            }
            c => {
                if !c.is_whitespace() {
                    found.push(Token { text: c.to_string(), line });
                }
                at + 1
            }
        };
        line += chars[at..end].iter().filter(|c| **c == '\n').count();
        at = end;
    }
    found
}

fn word_end(chars: &[char], at: usize) -> usize {
    chars[at..].iter().position(|c| *c != '_' && !c.is_alphanumeric()).map_or(chars.len(), |length| at + length)
}

fn line_end(chars: &[char], at: usize) -> usize {
    chars[at..].iter().position(|c| *c == '\n').map_or(chars.len(), |length| at + length)
}

/// Where `r"…"`, `r#"…"#`, `b"…"` or `b'…'` ends, if the word from `start` to `end` is such a prefix.
fn literal_behind(chars: &[char], start: usize, end: usize) -> Option<usize> {
    let prefix: String = chars[start..end].iter().collect();
    match (prefix.as_str(), chars.get(end)?) {
        ("b" | "c", '"') => Some(string_end(chars, end)),
        ("b", '\'') => Some(quote_end(chars, end)),
        ("r" | "br" | "cr", '"' | '#') => {
            let hashes = chars[end..].iter().take_while(|c| **c == '#').count();
            // `r#name` is a raw identifier.
            (chars.get(end + hashes) == Some(&'"')).then(|| raw_string_end(chars, end + hashes + 1, hashes))
        }
        _ => None,
    }
}

fn raw_string_end(chars: &[char], body: usize, hashes: usize) -> usize {
    let closes = |at: &usize| chars[*at] == '"' && chars[at + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes;
    (body..chars.len()).find(closes).map_or(chars.len(), |at| at + 1 + hashes)
}

fn string_end(chars: &[char], at: usize) -> usize {
    let mut next = at + 1;
    while let Some(c) = chars.get(next) {
        match c {
            '\\' => next += 2,
            '"' => return next + 1,
            _ => next += 1,
        }
    }
    chars.len()
}

/// The end of a character literal, or of the quote before a lifetime.
fn quote_end(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => chars[at + 3..].iter().position(|c| *c == '\'').map_or(chars.len(), |length| at + length + 4),
        (Some(_), Some('\'')) => at + 3,
        _ => word_end(chars, at + 1),
    }
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut next = at;
    while next + 1 < chars.len() {
        match (chars[next], chars[next + 1]) {
            ('/', '*') => (depth, next) = (depth + 1, next + 2),
            ('*', '/') if depth == 1 => return next + 2,
            ('*', '/') => (depth, next) = (depth - 1, next + 2),
            _ => next += 1,
        }
    }
    chars.len()
}

/// All paths of two segments or more, and single names behind `use`.
pub fn paths(tokens: &[Token]) -> Vec<Path> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if is_word(&tokens[at].text) && (at == 0 || !matches!(tokens[at - 1].text.as_str(), "::" | ".")) {
            let used = at > 0 && tokens[at - 1].text == "use";
            let before = found.len();
            at = path_from(tokens, at, &[], &mut found);
            if found.len() == before + 1 && found[before].segments.len() == 1 && !used {
                found.pop();
            }
        } else {
            at += 1;
        }
    }
    found
}

/// Reads one path or group from `at` on and says where it ends.
fn path_from(tokens: &[Token], mut at: usize, prefix: &[String], found: &mut Vec<Path>) -> usize {
    let mut segments = prefix.to_vec();
    let line = tokens[at].line;
    loop {
        match tokens.get(at).map(|token| token.text.as_str()) {
            Some("{") if !segments.is_empty() => return group_from(tokens, at, &segments, found),
            Some(word) if is_word(word) || word == "*" => segments.push(word.to_owned()),
            _ => break,
        }
        at += 1;
        if tokens.get(at).is_none_or(|token| token.text != "::") {
            break;
        }
        at += 1;
    }
    found.push(Path { segments, line });
    at
}

fn group_from(tokens: &[Token], open: usize, prefix: &[String], found: &mut Vec<Path>) -> usize {
    let mut at = open + 1;
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            "}" => return at + 1,
            word if is_word(word) || word == "*" => {
                at = path_from(tokens, at, prefix, found);
                // The name behind `as` is no path.
                while tokens.get(at).is_some_and(|token| !matches!(token.text.as_str(), "," | "}")) {
                    at += 1;
                }
            }
            _ => at += 1,
        }
    }
    at
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c == '_' || c.is_alphabetic())
}

fn texts(text: &str) -> Vec<String> {
    paths(&tokens(text)).into_iter().map(|path| format!("{}:{}", path.line, path.segments.join("::"))).collect()
}

#[test]
fn paths_are_found_wherever_they_stand() {
    assert_eq!(texts("use a::b;\nfn f() -> c::D { e::f::<g::H>(i) }"), ["1:a::b", "2:c::D", "2:e::f", "2:g::H"]);
    assert_eq!(texts("use a::{b, c::{d, e as x}, f::*};"), ["1:a::b", "1:a::c::d", "1:a::c::e", "1:a::f::*"]);
    assert_eq!(texts("use a;\n#[derive(b::C)]"), ["1:a", "2:b::C"]);
    assert_eq!(texts("let x = y.z(); match q { _ => w::v }"), ["1:w::v"]);
}

#[test]
fn comments_and_literals_hold_no_paths() {
    assert_eq!(texts("// a::b\n/* c::d /* e::f */ */ g::h"), ["2:g::h"]);
    assert_eq!(texts(r##"("a::b \" c::d", r#"e::f " g::h"#, b"i::j", '"', k::l, '\'', 'm')"##), ["1:k::l"]);
    assert_eq!(texts("fn f<'a>(x: &'a a::B) {}\n\"two\nlines\" c::d"), ["1:a::B", "3:c::d"]);
}
