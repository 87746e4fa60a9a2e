//! Whether somebody above already sends again what fails.
//!
//! Retries multiply: where each of five layers makes three attempts, one request of a user becomes
//! 243 at the bottom ("Timeouts, retries, and backoff with jitter", Amazon Builders' Library). So one
//! layer retries, the one that has the whole deadline in view, and tells those below that it does:
//! within a process by a value of the task, from process to process by a field of the request.
//!
//! The field is a hint, not a permission: whoever sends it without need switches off retries of its
//! own request alone.
#![forbid(unsafe_code)]

use std::future::Future;

/// The field of a request whose sender sends it again when it fails: `Hapax-Retries: above`.
pub const FIELD: &str = "hapax-retries";

/// Its value.
pub const ABOVE: &str = "above";

tokio::task_local! {
    static RETRIES: ();
}

/// Whether somebody above the present task retries.
pub fn retries() -> bool {
    RETRIES.try_with(|()| ()).is_ok()
}

/// Runs work under somebody who retries: clients in it do not.
pub fn retrying<F: Future>(work: F) -> impl Future<Output = F::Output> {
    RETRIES.scope((), work)
}

/// Runs work as the present task does: for what is spawned, which is a task of its own.
pub fn carry<F: Future>(work: F) -> impl Future<Output = F::Output> {
    when(retries(), work)
}

/// Runs work under somebody who retries, if that is so.
pub async fn when<F: Future>(retried: bool, work: F) -> F::Output {
    if retried { retrying(work).await } else { work.await }
}

/// Whether the lines of the field say that somebody above retries: one line, with the one word.
pub fn says<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> bool {
    let mut lines = lines.into_iter();
    let said =
        lines.next().is_some_and(|line| line.trim_ascii().eq_ignore_ascii_case(ABOVE.as_bytes()));
    said && lines.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_known_within_the_work_and_nowhere_else() {
        assert!(!retries());
        retrying(async {
            assert!(retries());
            assert!(!tokio::spawn(async { retries() }).await.unwrap(), "a task of its own");
            assert!(tokio::spawn(carry(async { retries() })).await.unwrap());
        })
        .await;
        assert!(!retries());
        assert!(!tokio::spawn(carry(async { retries() })).await.unwrap());
        assert!(when(true, async { retries() }).await);
        assert!(!when(false, async { retries() }).await);
    }

    #[test]
    fn one_word_says_it() {
        for (lines, said) in [
            (&["above"][..], true),
            (&[" Above "], true),
            (&["below"], false),
            (&[""], false),
            (&["above, above"], false),
            (&["above", "above"], false),
            (&[], false),
        ] {
            assert_eq!(says(lines.iter().map(|line| line.as_bytes())), said, "{lines:?}");
        }
    }
}
