//! JSON values taken only as deep as an event needs them: a scalar, or a short list of scalars. What lies deeper, or comes
//! after, is read past and not kept, so that a few bytes from outside never become many of memory.

use std::fmt;
use std::ops::Deref;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// How much of a list is kept: coordinates have three numbers.
const MAX_KEPT: usize = 4;

/// A scalar; the first four scalars of a list; an object without its members.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Shallow(pub Value);

impl Deref for Shallow {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Shallow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Shallow, D::Error> {
        deserializer.deserialize_any(Levels(1)).map(Shallow)
    }
}

/// How many levels of lists are kept.
#[derive(Clone, Copy)]
struct Levels(usize);

/// An element of a list.
struct Leaf(Value);

impl<'de> Deserialize<'de> for Leaf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Leaf, D::Error> {
        deserializer.deserialize_any(Levels(0)).map(Leaf)
    }
}

impl<'de> Visitor<'de> for Levels {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut kept = Vec::new();
        while self.0 > 0 && kept.len() < MAX_KEPT {
            match list.next_element::<Leaf>()? {
                Some(Leaf(value)) => kept.push(value),
                None => return Ok(kept.into()),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(kept.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Object(serde_json::Map::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_surface_is_kept() {
        for (json, kept) in [
            ("null", "null"),
            ("-7", "-7"),
            ("1.5", "1.5"),
            ("\"\\u00e9\"", "\"é\""),
            ("[160.3,52.5,20]", "[160.3,52.5,20]"),
            ("[1,2,3,4,5,6]", "[1,2,3,4]"),
            ("[[1,[2]],{\"a\":1},\"x\"]", "[[],{},\"x\"]"),
            ("{\"a\":[1,2,{\"b\":3}]}", "{}"),
        ] {
            assert_eq!(serde_json::from_str::<Shallow>(json).expect(json).to_string(), kept, "{json}");
        }
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(serde_json::from_str::<Shallow>(&deep).expect("a list").to_string(), "[[]]");
        assert!(serde_json::from_str::<Shallow>("1e999").is_err());
    }
}
