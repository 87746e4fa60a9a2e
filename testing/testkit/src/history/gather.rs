//! The parts of a history that others keep: the service's logs, and the records.

use std::path::Path;

use serde_json::Value;

use super::{Arrived, Entry, History, Made, Recorded};
use crate::{Arrival, Scene, hapax};

impl History {
    /// What is known now of a scene with these records, in which intents take effect once at most.
    /// Nothing may be under way any more.
    #[track_caller]
    pub fn of(scene: &Scene, records: Vec<Recorded>) -> Self {
        let Scene { downstream, upstream, recorder, .. } = scene;
        let effects = upstream.effects().into_iter();
        Self {
            one_effect: true,
            resends: downstream.resends(),
            calls: recorder.calls(),
            arrivals: upstream.arrivals().iter().map(arrived).collect(),
            effects: effects
                .map(|made| Made { n: made.n, at: made.at, arrival: made.arrival })
                .collect(),
            records,
        }
    }
}

fn arrived(arrival: &Arrival) -> Arrived {
    let content = arrival.text.clone().unwrap_or_default();
    let value: Value = serde_json::from_str(&content).unwrap_or_default();
    Arrived {
        n: arrival.n,
        at: arrival.at,
        effect_id: arrival.effect_id().to_string(),
        attempt: arrival.attempt(),
        intent: value["intent"].as_str().unwrap_or_default().to_owned(),
        content,
    }
}

/// All records of a database, by `hapax records`. What happened to one beside its plain course is
/// asked for where there was more than one attempt.
#[track_caller]
pub fn records(database: &Path) -> Vec<Recorded> {
    let store = format!("sqlite:{}", database.display());
    let listed = hapax(["records", "list", "--store", &store, "--limit", "1000000", "--json"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let records = listed.stdout.lines().map(|line| {
        let record: Value = serde_json::from_str(line).expect("JSON");
        if record["attempt"] == 1 {
            return recorded(&record);
        }
        let id = record["record"].as_str().expect("a record");
        let shown = hapax(["records", "show", "--store", &store, "--json", id]);
        recorded(&shown.json())
    });
    records.collect()
}

fn recorded(record: &Value) -> Recorded {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entries = record["history"].as_array().into_iter().flatten();
    Recorded {
        effect_id: text(&record["effect_id"]),
        state: text(&record["state"]),
        on_unknown: text(&record["on_unknown"]),
        entries: entries
            .map(|entry| Entry {
                attempt: entry["attempt"].as_u64().expect("an attempt"),
                what: text(&entry["what"]),
            })
            .collect(),
    }
}
