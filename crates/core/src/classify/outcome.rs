//! The outcome as the body of an answer tells it, for services that answer 2xx whatever happened.

use crate::{Json, Pointer};

/// What the body of an answer says of the effect.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Told {
    /// The effect exists.
    Applied,
    /// This attempt did nothing, and a corrected request may go on under the key.
    NotApplied,
    /// It failed for good, and will every time.
    Failed,
    /// It cannot be told.
    Unknown,
}

/// How the body of a complete 2xx answer is read.
///
/// The rules are tried in order until one of them says something; a body that is no JSON, and one
/// of which none says anything, are [`Told::Unknown`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OutcomeRules(Vec<OutcomeRule>);

/// What one place of a JSON answer says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OutcomeRule {
    /// The place.
    pub at: Pointer,
    /// What it says when nothing, or `null`, is there.
    pub absent: Option<Told>,
    /// What single values say.
    pub values: Vec<(Json<'static>, Told)>,
    /// What any other value says.
    pub present: Option<Told>,
}

impl OutcomeRules {
    /// The rules in their order.
    pub const fn new(rules: Vec<OutcomeRule>) -> Self {
        Self(rules)
    }

    /// What the content of an answer says, its content codings removed.
    pub fn read(&self, content: &[u8]) -> Told {
        let Ok(body) = Json::parse(content) else { return Told::Unknown };
        self.0.iter().find_map(|rule| rule.read(&body)).unwrap_or(Told::Unknown)
    }

    /// Whether there is an answer that they read as applied.
    pub(crate) fn says_anything(&self) -> bool {
        self.0.iter().any(|rule| {
            let values = rule.values.iter().map(|(_, told)| *told);
            values.chain(rule.absent).chain(rule.present).any(|told| told == Told::Applied)
        })
    }
}

impl OutcomeRule {
    /// What a place says, as far as the following add to it.
    ///
    /// ```
    /// use hapax_core::{OutcomeRule, OutcomeRules, Pointer, Told};
    ///
    /// let status = Pointer::parse("/data/pay/status")?;
    /// let rule = OutcomeRule::of(status)
    ///     .when("OK", Told::Applied)
    ///     .when("DECLINED", Told::Failed)
    ///     .when_absent(Told::Unknown);
    /// let rules = OutcomeRules::new(vec![rule]);
    /// assert_eq!(rules.read(br#"{"data":{"pay":{"status":"OK"}}}"#), Told::Applied);
    /// assert_eq!(rules.read(br#"{"data":{"pay":null}}"#), Told::Unknown);
    /// # Ok::<(), hapax_core::PointerError>(())
    /// ```
    pub const fn of(at: Pointer) -> Self {
        Self { at, absent: None, values: Vec::new(), present: None }
    }

    /// What this text says.
    #[must_use]
    pub fn when(mut self, text: &str, told: Told) -> Self {
        self.values.push((Json::String(text.to_owned().into()), told));
        self
    }

    /// What it says that nothing, or `null`, is there.
    #[must_use]
    pub fn when_absent(self, told: Told) -> Self {
        Self { absent: Some(told), ..self }
    }

    /// What any value says that is not named.
    #[must_use]
    pub fn when_present(self, told: Told) -> Self {
        Self { present: Some(told), ..self }
    }

    fn read(&self, body: &Json<'_>) -> Option<Told> {
        let value = match body.get(&self.at) {
            None | Some(Json::Null) => return self.absent,
            Some(value) => value,
        };
        let listed = self.values.iter().find(|(listed, _)| listed == value);
        listed.map(|(_, told)| *told).or(self.present)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(at: &str) -> OutcomeRule {
        let at = Pointer::parse(at).unwrap();
        OutcomeRule { at, absent: None, values: Vec::new(), present: None }
    }

    fn text(text: &str) -> Json<'static> {
        Json::String(text.to_owned().into())
    }

    #[test]
    fn absence_says_as_much_as_presence_and_null_is_absent() {
        let errors = OutcomeRule {
            absent: Some(Told::Applied),
            present: Some(Told::NotApplied),
            ..rule("/errors")
        };
        let rules = OutcomeRules::new(vec![errors]);
        for (body, told) in [
            (r#"{"data":{}}"#, Told::Applied),
            (r#"{"data":{},"errors":null}"#, Told::Applied),
            (r#"{"errors":[]}"#, Told::NotApplied),
            (r#"{"errors":[{"message":"no"}]}"#, Told::NotApplied),
            ("[]", Told::Applied),
            ("", Told::Unknown),
            ("{", Told::Unknown),
            (r#"{"errors":1,"errors":null}"#, Told::Unknown),
            ("OK", Told::Unknown),
        ] {
            assert_eq!(rules.read(body.as_bytes()), told, "{body}");
        }
    }

    #[test]
    fn the_first_rule_that_says_something_counts() {
        let values = vec![(text("DECLINED"), Told::Failed), (text("INVALID"), Told::NotApplied)];
        let rules = OutcomeRules::new(vec![
            OutcomeRule { values, ..rule("/errors/0/code") },
            OutcomeRule { present: Some(Told::Unknown), ..rule("/errors") },
            OutcomeRule { values: vec![(text("OK"), Told::Applied)], ..rule("/data/pay/status") },
        ]);
        for (body, told) in [
            (r#"{"errors":[{"code":"DECLINED"}],"data":null}"#, Told::Failed),
            (r#"{"errors":[{"code":"INVALID"}]}"#, Told::NotApplied),
            (r#"{"errors":[{"code":"LATER"}],"data":{"pay":{"status":"OK"}}}"#, Told::Unknown),
            (r#"{"data":{"pay":{"status":"OK"}}}"#, Told::Applied),
            (r#"{"data":{"pay":{"status":"PENDING"}}}"#, Told::Unknown),
            (r#"{"data":{"pay":null}}"#, Told::Unknown),
        ] {
            assert_eq!(rules.read(body.as_bytes()), told, "{body}");
        }
    }

    #[test]
    fn values_are_compared_as_json() {
        let values = vec![(Json::parse(b"1").unwrap(), Told::Applied)];
        let rules = OutcomeRules::new(vec![OutcomeRule { values, ..rule("/ok") }]);
        assert_eq!(rules.read(br#"{"ok":1.0}"#), Told::Applied);
        assert_eq!(rules.read(br#"{"ok":"1"}"#), Told::Unknown);
        assert_eq!(rules.read(br#"{"ok":true}"#), Told::Unknown);
    }
}
