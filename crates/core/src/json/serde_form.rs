//! JSON values inside serialized policies and configurations.
//!
//! Values read from any self-describing format (TOML, JSON) as what they are there. What a format
//! or its readers may round, a number beyond 64-bit integers, is written as the object
//! `{"$number": "12.50"}`; a member name that starts with `$` is written with another `$`, so that
//! every value comes back as it was.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
    ser::SerializeMap,
};

use super::{Json, Members};

const NUMBER: &str = "$number";

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => match number.as_str().parse::<i64>() {
                Ok(integer) => serializer.serialize_i64(integer),
                Err(_) => serializer.collect_map([(NUMBER, number.as_str())]),
            },
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(members) => {
                let members = members.iter();
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    match name.starts_with('$') {
                        true => map.serialize_entry(&format!("${name}"), value)?,
                        false => map.serialize_entry(name, value)?,
                    }
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json<'static> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json<'static>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json<'static>, E> {
        Ok(Json::Null)
    }

    fn visit_none<E>(self) -> Result<Json<'static>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'static>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Json<'static>, E> {
        number(&value.to_string())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Json<'static>, E> {
        number(&value.to_string())
    }

    /// The shortest decimal that reads as this double: what its author wrote.
    fn visit_f64<E: Error>(self, value: f64) -> Result<Json<'static>, E> {
        number(&value.to_string())
    }

    fn visit_str<E>(self, text: &str) -> Result<Json<'static>, E> {
        Ok(Json::String(text.to_owned().into()))
    }

    fn visit_string<E>(self, text: String) -> Result<Json<'static>, E> {
        Ok(Json::String(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json<'static>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json<'static>, A::Error> {
        let mut members: Vec<(Cow<'static, str>, Json<'static>)> = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, _>()? {
            members.push((name.into(), value));
        }
        if let [(name, Json::String(text))] = members.as_slice()
            && &**name == NUMBER
        {
            return number(text);
        }
        for (name, _) in &mut members {
            if let Some(escaped) = name.strip_prefix('$').filter(|rest| rest.starts_with('$')) {
                *name = escaped.to_owned().into();
            }
        }
        let members = Members::new(members).ok_or_else(|| {
            A::Error::custom("an object has two members of one name; give each name once")
        })?;
        Ok(Json::Object(members))
    }
}

fn number<E: Error>(text: &str) -> Result<Json<'static>, E> {
    match Json::parse(text.as_bytes()) {
        Ok(number @ Json::Number(_)) => Ok(number.into_owned()),
        _ => Err(E::custom("not a finite decimal number; write it as in 12.50")),
    }
}
