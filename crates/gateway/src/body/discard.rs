//! The rest of a body that nobody wants.

use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::timeout;

/// What is read of a refused body at the most.
const MOST: usize = 4 << 20;

/// How long that may take.
const WITHIN: Duration = Duration::from_secs(1);

/// Reads on for a while before a refusal is answered.
///
/// A connection that closes with unread bytes is reset, and the reset can overtake the answer and
/// destroy it (RFC 9112, section 9.6): the client then sees a broken pipe instead of the refusal.
/// Bounded, so that a refused upload costs little; a client that sends more may lose the answer.
pub(crate) async fn discard<B>(mut body: B)
where
    B: Body<Data = Bytes> + Unpin,
{
    let reading = async {
        let mut read = 0;
        while read < MOST
            && let Some(Ok(frame)) = body.frame().await
        {
            read += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    // Whatever it came to, the answer goes out now.
    let _ = timeout(WITHIN, reading).await;
}

#[cfg(test)]
mod tests {
    use http_body::Frame;

    use super::super::scripted::{Scripted, Step};
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_the_body_at_its_bound_or_when_time_is_up() {
        let mebibyte = || Step::Frame(Frame::data(Bytes::from(vec![0; 1 << 20])));
        discard(Scripted::new([mebibyte()])).await;
        discard(Scripted::new([mebibyte(), Step::Break])).await;
        discard(Scripted::new((0..5).map(|_| mebibyte()).chain([Step::Never]))).await;
        let begun = tokio::time::Instant::now();
        discard(Scripted::new([Step::Never])).await;
        assert_eq!(begun.elapsed(), WITHIN);
    }
}
