//! What an operator has found out: the outcome that retries are answered with, or that there is
//! none.

use bytes::Bytes;
use clap::Args;
use hapax::http::headers::never_replayed;
use hapax_core::{AppliedOutcome, Ruling, StoredResponse, class_of_status};
use http::{HeaderName, HeaderValue};

use crate::failure::Failure;

/// What was found out.
#[derive(Args, Debug)]
pub(super) struct Finding {
    /// It took effect (or was refused for good), and came to this answer; also say --status.
    #[arg(long, requires = "status")]
    applied: bool,
    /// It did not take effect, by any attempt, and will not; also say --closed or --risk.
    #[arg(long)]
    not_applied: bool,
    /// The status that retries get: 2xx or 301 to 303 for a success, 4xx for a refusal.
    #[arg(long, value_name = "STATUS", requires = "applied", value_parser = clap::value_parser!(u16))]
    status: Option<u16>,
    /// A header that retries get, as 'Name: value'; may be given more than once.
    #[arg(long, value_name = "HEADER", requires = "applied")]
    header: Vec<String>,
    /// The body that retries get: a text, or @FILE. Without it they get 409 outcome-not-kept.
    #[arg(long, value_name = "TEXT|@FILE", requires = "applied")]
    body: Option<String>,
}

impl Finding {
    /// Whether retries are to get an answer that is given here.
    pub(super) const fn has_an_answer(&self) -> bool {
        self.body.is_some() || !self.header.is_empty()
    }

    /// The outcome, where there is one.
    ///
    /// `cap`: the most bytes of a body that are kept.
    pub(super) fn applied(&self, cap: usize) -> Result<Option<AppliedOutcome>, Failure> {
        let Some(status) = self.status.filter(|_| self.applied) else { return Ok(None) };
        let class = class_of_status(status).ok_or_else(|| {
            Failure::start(format!(
                "--status {status} is no outcome: 2xx (but 206) and 301 to 303 say that the effect \
                 exists, 4xx that it was refused for good"
            ))
        })?;
        // A status that never has a body is an answer by itself.
        let bodiless = matches!(status, 204 | 205);
        let headers = self.header.iter().map(|header| field(header)).collect::<Result<_, _>>()?;
        let body = match &self.body {
            None => bodiless.then(Bytes::new),
            Some(text) => Some(match text.strip_prefix('@') {
                Some(file) => std::fs::read(file).map(Bytes::from).map_err(|error| {
                    Failure::start(format!("--body: {file} cannot be read: {error}"))
                })?,
                None => Bytes::from(text.clone()),
            }),
        };
        if bodiless && body.as_ref().is_some_and(|body| !body.is_empty()) {
            return Err(Failure::start(format!(
                "--body: an answer with {status} has none; leave it out, or say another --status"
            )));
        }
        if let Some(body) = body.as_ref().filter(|body| body.len() > cap) {
            return Err(Failure::start(format!(
                "--body has {} bytes, and answers are kept up to {cap} (response_cap); leave it \
                 out, and retries get 409 outcome-not-kept",
                body.len()
            )));
        }
        if body.is_none() && !self.header.is_empty() {
            return Err(Failure::start(
                "--header belongs to an answer that is kept: give its --body too, which may be ''",
            ));
        }
        let response = body.map(|body| StoredResponse { status, headers, body });
        Ok(Some(AppliedOutcome { class, status, response }))
    }
}

/// The word for a ruling.
pub(super) const fn word(ruling: &Ruling) -> &'static str {
    match ruling {
        Ruling::Applied(_) => "applied",
        Ruling::NotApplied => "not applied, the key is free",
    }
}

fn field(text: &str) -> Result<(Bytes, Bytes), Failure> {
    let wrong = |why: &str| {
        Failure::start(format!("--header {why}; write it as in 'Content-Type: application/json'"))
    };
    let (name, value) = text.split_once(':').ok_or_else(|| wrong("has no colon"))?;
    let name = HeaderName::try_from(name.trim()).map_err(|_| wrong("has no name"))?;
    if never_replayed(&name) {
        return Err(Failure::start(format!(
            "--header: {name} is never replayed: it belongs to one exchange or one receiver"
        )));
    }
    let value = HeaderValue::try_from(value.trim()).map_err(|_| wrong("has no such value"))?;
    Ok((Bytes::copy_from_slice(name.as_str().as_bytes()), Bytes::copy_from_slice(value.as_bytes())))
}

#[cfg(test)]
mod tests {
    use hapax_core::OutcomeClass;

    use super::*;

    const CAP: usize = 16;

    fn finding(status: u16, header: &[&str], body: Option<&str>) -> Finding {
        Finding {
            applied: true,
            not_applied: false,
            status: Some(status),
            header: header.iter().map(|&text| text.to_owned()).collect(),
            body: body.map(str::to_owned),
        }
    }

    #[test]
    fn an_answer_is_put_together_as_it_was_said() {
        let headers = ["Content-Type: application/json", "Link: <a>", "Link: <b>"];
        let outcome = finding(201, &headers, Some("{}")).applied(CAP).expect("right").expect("one");
        assert_eq!((outcome.class, outcome.status), (OutcomeClass::Succeeded, 201));
        let response = outcome.response.expect("kept");
        assert_eq!(response.headers[0].0, "content-type");
        assert_eq!((response.headers.len(), &response.body[..]), (3, &b"{}"[..]));
        let refused = finding(402, &[], None).applied(CAP).expect("right").expect("one");
        assert_eq!((refused.class, refused.response), (OutcomeClass::FailedTerminal, None));
        let empty = finding(204, &[], None).applied(CAP).expect("right").expect("one");
        assert!(empty.response.is_some(), "nothing is all there is of it");
    }

    #[test]
    fn what_is_no_outcome_is_refused_with_its_remedy() {
        for (finding, said) in [
            (finding(503, &[], None), "--status 503 is no outcome"),
            (finding(304, &[], None), "--status 304 is no outcome"),
            (finding(205, &[], Some("x")), "an answer with 205 has none"),
            (
                finding(200, &[], Some("12345678901234567")),
                "17 bytes, and answers are kept up to 16",
            ),
            (finding(200, &["nonsense"], Some("")), "has no colon"),
            (finding(200, &["Set-Cookie: a"], Some("")), "set-cookie is never replayed"),
            (finding(200, &["Link: <a>"], None), "give its --body too"),
            (finding(200, &[], Some("@/nowhere/at/all")), "/nowhere/at/all cannot be read"),
        ] {
            let failure = finding.applied(CAP).expect_err(said);
            assert!(failure.message.contains(said), "{}", failure.message);
            assert_eq!(failure.code, 2);
        }
    }
}
