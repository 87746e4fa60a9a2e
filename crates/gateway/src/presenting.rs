//! How problems are presented: types, statuses, and where more is said.

use hapax::http::refuse_as;
use hapax_core::{Problem, ProblemKind};
use http::{HeaderValue, Response, header::LINK};

use crate::{
    answer_body::AnswerBody,
    config::{Problems, StatusCodes},
    well_known,
};

/// How problems are presented, by the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Presentation {
    problems: Problems,
    /// Whether there is a policy document to point at (RFC 9457 leaves the place to us; the draft
    /// of the Idempotency-Key field wants `describedby`).
    has_document: bool,
}

impl Presentation {
    pub(crate) const fn new(problems: Problems, has_document: bool) -> Self {
        Self { problems, has_document }
    }

    /// A problem as its response; `codes` are the operation's own statuses.
    pub(crate) fn refuse(
        &self,
        problem: &Problem,
        codes: Option<&StatusCodes>,
    ) -> Response<AnswerBody> {
        let type_uri = self.type_uri(problem.kind);
        let mut response = match self.status(problem, codes) {
            None => refuse_as(problem, &type_uri),
            Some(status) => refuse_as(&problem.clone().with_status(status), &type_uri),
        };
        if self.has_document {
            let described = HeaderValue::from_static(well_known::DESCRIBED_BY);
            response.headers_mut().append(LINK, described);
        }
        response
    }

    /// The type of a kind of problem.
    pub(crate) fn type_uri(&self, kind: ProblemKind) -> String {
        match &self.problems.base {
            None => kind.type_uri(),
            Some(base) => format!("{base}{}", kind.name()),
        }
    }

    /// The usual status of a kind, for an operation with these statuses of its own.
    pub(crate) fn usual_status(&self, kind: ProblemKind, codes: &StatusCodes) -> u16 {
        let own = codes.get(&kind).or_else(|| self.problems.status_codes.get(&kind));
        own.copied().unwrap_or_else(|| kind.status())
    }

    /// Another status than the problem's. One that the situation asked for, as 503 where a retry
    /// goes on, stays.
    fn status(&self, problem: &Problem, codes: Option<&StatusCodes>) -> Option<u16> {
        let none = StatusCodes::new();
        let usual = self.usual_status(problem.kind, codes.unwrap_or(&none));
        (problem.status == problem.kind.status() && usual != problem.status).then_some(usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operations_status_goes_before_the_common_one_and_a_situations_before_both() {
        let codes = |code| StatusCodes::from([(ProblemKind::OutcomeUnknown, code)]);
        let problems = Problems {
            base: Some("https://api.example/problems/".to_owned()),
            status_codes: codes(420),
        };
        let presentation = Presentation::new(problems, true);
        let problem = Problem::new(ProblemKind::OutcomeUnknown, "");
        let retried = problem.clone().with_status(503);
        for (problem, own, status) in [
            (&problem, None, 420),
            (&problem, Some(codes(423)), 423),
            (&retried, Some(codes(423)), 503),
            (&Problem::new(ProblemKind::KeyReused, ""), Some(codes(423)), 422),
        ] {
            let response = presentation.refuse(problem, own.as_ref());
            assert_eq!(response.status(), status);
            assert!(response.headers()[LINK].to_str().unwrap().contains("describedby"));
        }
        assert_eq!(
            presentation.type_uri(ProblemKind::KeyReused),
            "https://api.example/problems/key-reused"
        );
    }
}
