//! What a page is asked: the fields of its form, as the address has them.

use std::fmt::Display;
use std::str::FromStr;

use axum::http::Uri;
use url::form_urlencoded;

use super::shell::Refusal;

/// The fields of a form. An address is no longer than the head of a request may be, so they are bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub fn of(address: &Uri) -> Query {
        let query = address.query().unwrap_or_default();
        Query(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// What stands in the field, without spaces around it; an empty field is none. The first of that name counts.
    pub fn text(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(found, _)| found == name)?;
        Some(value.trim()).filter(|value| !value.is_empty())
    }

    /// The same as it was written; an empty field is an empty text.
    pub fn written(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.trim())
    }

    /// What stands in all fields of that name, without the empty ones.
    pub fn texts<'q>(&'q self, name: &str) -> impl Iterator<Item = &'q str> {
        let named = self.0.iter().filter(move |(found, _)| found == name);
        named.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// An address that asks the same, but for one field.
    pub fn but(&self, name: &str, value: &str) -> String {
        let others = self.0.iter().filter(|(found, value)| found != name && !value.is_empty());
        let all = others.map(|(found, value)| (found.as_str(), value.as_str())).chain([(name, value)]);
        format!("?{}", form_urlencoded::Serializer::new(String::new()).extend_pairs(all).finish())
    }

    /// The value of the field, if there is one.
    ///
    /// # Errors
    /// [`Refusal::Asked`] with the field's name and the fault.
    pub fn value<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let parsed = self.text(name).map(str::parse).transpose();
        parsed.map_err(|fault| Refusal::Asked(format!("{name}: {fault}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded_and_empty_ones_are_none() {
        let query = Query::of(&"/?a=1%2F2+3&b=&a=2&c=%20x%20".parse().expect("an address"));
        assert_eq!((query.text("a"), query.text("b"), query.text("c"), query.text("d")), (Some("1/2 3"), None, Some("x"), None));
        assert_eq!(query.value::<u32>("d").expect("none"), None);
        let refused = query.value::<u32>("c").expect_err("not a number").to_string();
        assert!(refused.starts_with("c: invalid digit"), "{refused}");
    }
}
