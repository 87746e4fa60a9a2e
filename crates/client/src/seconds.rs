//! Durations in seconds, as numbers, in policies that are read from JSON.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de::Error};

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(D::Error::custom)
}

pub(crate) mod optional {
    use super::{Deserialize, Deserializer, Duration, Error};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<f64>::deserialize(from)?;
        seconds.map(Duration::try_from_secs_f64).transpose().map_err(D::Error::custom)
    }
}
