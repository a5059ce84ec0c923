//! The fields of a form that is asked again and again: what was written, what it means, and what is wrong with it, in the words of
//! the command line. A wrong field keeps what was written, and the others keep what they say.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use serde::Serialize;

use super::query::Query;
use super::shell::{Markup, Refusal};
use crate::plain::one_line;

/// The longest text of a field that is read, in characters, and shown again when it makes no sense.
const MAX_CHARS: usize = 100;
/// The longest message about one: it quotes the text, and says what was expected.
const MAX_FAULT_CHARS: usize = 400;
/// The most values that a field may have that is given several times.
const MAX_VALUES: usize = 16;

/// Reads the fields of a form, and remembers what is wrong.
pub(super) struct Reading<'q> {
    query: &'q Query,
    faults: Faults,
}

/// What is wrong with which field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults(BTreeMap<&'static str, String>);

impl<'q> Reading<'q> {
    pub fn new(query: &'q Query) -> Reading<'q> {
        Reading { query, faults: Faults::default() }
    }

    /// The value of a field, if there is one that makes sense.
    pub fn with<T, E: Display>(&mut self, name: &'static str, parse: impl Fn(&str) -> Result<T, E>) -> Option<T> {
        let text = self.query.text(name)?;
        let parsed = bounded(text).and_then(|text| parse(text).map_err(|fault| fault.to_string()));
        parsed.map_err(|fault| self.fault(name, fault)).ok()
    }

    /// The same for what reads itself.
    pub fn value<T: FromStr<Err: Display>>(&mut self, name: &'static str) -> Option<T> {
        self.with(name, T::from_str)
    }

    /// The values of a field that may be given several times; those that make no sense are left out.
    pub fn values<T: FromStr<Err: Display>>(&mut self, name: &'static str) -> Vec<T> {
        let texts: Vec<&str> = self.query.texts(name).take(MAX_VALUES + 1).collect();
        if texts.len() > MAX_VALUES {
            self.fault(name, format!("expected at most {MAX_VALUES} values"));
        }
        let parsed =
            texts.into_iter().map(|text| bounded(text).and_then(|text| T::from_str(text).map_err(|fault| fault.to_string())));
        let (good, bad): (Vec<_>, Vec<_>) = parsed.partition(Result::is_ok);
        if let Some(Err(fault)) = bad.into_iter().next() {
            self.fault(name, fault);
        }
        good.into_iter().flatten().collect()
    }

    /// Something is wrong with a field; what was found first stays.
    pub fn fault(&mut self, name: &'static str, fault: impl Display) {
        self.faults.0.entry(name).or_insert_with(|| one_line(&fault.to_string(), MAX_FAULT_CHARS));
    }

    pub fn finish(self) -> Faults {
        self.faults
    }
}

fn bounded(text: &str) -> Result<&str, String> {
    if text.chars().count() <= MAX_CHARS { Ok(text) } else { Err(format!("expected at most {MAX_CHARS} characters")) }
}

impl Faults {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn of(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// What stands in the place of a result that cannot be: which fields are wrong, and how.
    pub fn result(&self, fields: &[Field]) -> Result<Markup, Refusal> {
        #[derive(Serialize)]
        struct Wrong<'f> {
            name: &'f str,
            label: &'f str,
            fault: &'f str,
        }
        #[derive(Serialize)]
        struct Said<'f> {
            wrong: Vec<Wrong<'f>>,
        }
        let label = |name: &'static str| fields.iter().find(|field| field.name == name).map_or(name, |field| field.label);
        let wrong = self.0.iter().map(|(name, fault)| Wrong { name, label: label(name), fault });
        Markup::filled("faults.html", Said { wrong: wrong.collect() })
    }
}

/// A field as it is shown.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Field {
    pub name: &'static str,
    pub label: &'static str,
    pub kind: Kind,
    /// Below it; may be empty.
    pub hint: Markup,
    pub fault: Option<String>,
    /// Shown only while this choice of another field is made: the id of its box.
    pub only_with: Option<&'static str>,
}

/// How a field is filled in.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub(super) enum Kind {
    /// A line of text; `number` for whole numbers, which arrow keys change.
    Line { text: String, number: bool, placeholder: String },
    /// One of several.
    One { choices: Vec<Choice> },
    /// Any of several.
    Any { choices: Vec<Choice> },
}

/// One of the values that a field may have.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Choice {
    pub value: String,
    pub label: String,
    /// More about it, may be empty.
    pub about: String,
    pub chosen: bool,
}

impl Choice {
    /// A choice that is called what its value is.
    pub fn plain(value: impl Display, chosen: bool) -> Choice {
        let value = value.to_string();
        Choice { label: value.clone(), value, about: String::new(), chosen }
    }
}

impl Field {
    /// A line of text, with what was written in it, or with its usual value where it was never filled in.
    pub fn line(name: &'static str, label: &'static str, query: &Query, usual: &str) -> Field {
        let text = one_line(query.written(name).unwrap_or(usual), MAX_CHARS);
        Field::new(name, label, Kind::Line { text, number: false, placeholder: String::new() })
    }

    /// The same for a whole number.
    pub fn number(name: &'static str, label: &'static str, query: &Query, usual: &str) -> Field {
        let mut field = Field::line(name, label, query, usual);
        if let Kind::Line { text, number, .. } = &mut field.kind {
            // A browser shows nothing in a field of numbers that does not hold one.
            *number = text.is_empty() || text.bytes().all(|byte| byte.is_ascii_digit());
        }
        field
    }

    pub fn one(name: &'static str, label: &'static str, choices: Vec<Choice>) -> Field {
        Field::new(name, label, Kind::One { choices })
    }

    pub fn any(name: &'static str, label: &'static str, choices: Vec<Choice>) -> Field {
        Field::new(name, label, Kind::Any { choices })
    }

    fn new(name: &'static str, label: &'static str, kind: Kind) -> Field {
        Field { name, label, kind, hint: Markup::default(), fault: None, only_with: None }
    }

    /// What an empty line stands for.
    pub fn or(mut self, usual: impl Display) -> Field {
        if let Kind::Line { placeholder, .. } = &mut self.kind {
            *placeholder = usual.to_string();
        }
        self
    }

    pub fn hint(mut self, hint: Markup) -> Field {
        self.hint = hint;
        self
    }

    pub fn only_with(mut self, id: &'static str) -> Field {
        self.only_with = Some(id);
        self
    }
}

/// The form with its fields and what is wrong with them.
pub(super) fn form(mut fields: Vec<Field>, faults: &Faults) -> Result<Markup, Refusal> {
    #[derive(Serialize)]
    struct Form {
        fields: Vec<Field>,
    }
    for field in &mut fields {
        field.fault = faults.of(field.name).map(str::to_owned);
    }
    Markup::filled("fields.html", Form { fields })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::Rate;

    fn query(text: &str) -> Query {
        Query::of(&format!("/?{text}").parse().expect("an address"))
    }

    #[test]
    fn what_is_wrong_is_told_and_the_rest_is_read() {
        let query = query("rate=5%2Ffortnight&bucket=7&other=");
        let mut reading = Reading::new(&query);
        assert_eq!(reading.value::<Rate>("rate"), None);
        assert_eq!(reading.with("bucket", crate::words::whole_number), Some(7));
        assert_eq!(reading.value::<Rate>("other"), None);
        let faults = reading.finish();
        let expected = "5/fortnight".parse::<Rate>().expect_err("no rate").to_string();
        assert_eq!((faults.of("rate"), faults.of("bucket"), faults.of("other")), (Some(expected.as_str()), None, None));
    }

    #[test]
    fn no_field_is_read_without_end() {
        let long = format!("a={}&{}", "9".repeat(MAX_CHARS + 1), "b=1&".repeat(MAX_VALUES + 1));
        let query = query(&long);
        let mut reading = Reading::new(&query);
        assert_eq!(reading.with("a", crate::words::whole_number), None);
        assert_eq!(reading.values::<u8>("b").len(), MAX_VALUES + 1);
        let faults = reading.finish();
        assert_eq!(faults.of("a"), Some("expected at most 100 characters"));
        assert_eq!(faults.of("b"), Some("expected at most 16 values"));
    }
}
