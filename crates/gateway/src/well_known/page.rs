//! The policy document for people.

use std::time::Duration;

use askama::Template;

use super::policy::{KeyedPolicy, Policy};
use crate::config::duration::show;

/// The page.
#[derive(Template)]
#[template(path = "policy.html")]
pub(super) struct Page<'a> {
    policy: &'a Policy,
}

impl<'a> Page<'a> {
    pub(super) const fn of(policy: &'a Policy) -> Self {
        Self { policy }
    }

    pub(super) fn text(&self) -> String {
        // Writing to a string does not fail.
        self.render().unwrap_or_default()
    }

    /// What makes two requests the same, in a line.
    #[expect(clippy::unused_self, reason = "templates call methods of the page")]
    fn intent(&self, keyed: &KeyedPolicy) -> String {
        let intent = &keyed.intent;
        let list = |name: &str| -> Vec<String> {
            let texts = intent[name].as_array().into_iter().flatten();
            texts.filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let mut said = vec![match intent["body"].as_str() {
            Some("none") => "the key alone".to_owned(),
            Some("raw") => "method, path, query and the body byte by byte".to_owned(),
            Some(form @ ("json" | "jcs")) => {
                format!("method, path, query and the body as {}", form.to_uppercase())
            }
            Some(form) => format!("method, path, query and the body as {form}"),
            None => "method, path, query and the body by its media type".to_owned(),
        }];
        for (name, words) in
            [("include", "only"), ("exclude", "without"), ("unordered", "in any order")]
        {
            let places = list(name);
            if !places.is_empty() {
                said.push(format!("{words} {}", places.join(", ")));
            }
        }
        if let Some(defaults) = intent["defaults"].as_object().filter(|d| !d.is_empty()) {
            let meant = |(place, value)| format!("where {place} is left out, {value} is meant");
            said.extend(defaults.iter().map(meant));
        }
        said.join("; ")
    }

    #[expect(clippy::unused_self, reason = "templates call methods of the page")]
    fn span(&self, seconds: &u64) -> String {
        show(Duration::from_secs(*seconds))
    }
}
