//! The load: connections that send one request after the other, over plain blocking sockets.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    num::NonZeroUsize,
    thread,
    time::Duration,
};

use super::keys::Key;
use crate::run::{Context, Failure, Outcome};

/// No answer takes this long.
const LIMIT: Duration = Duration::from_secs(20);

const BODY: &str = r#"{"amount":1200,"currency":"EUR","to":"bench"}"#;

/// One request for each key, spread over connections.
pub(super) struct Load<'k> {
    pub(super) target: SocketAddr,
    pub(super) connections: NonZeroUsize,
    pub(super) keys: &'k [Key],
    pub(super) expected: Expected,
}

/// What every answer has to be, or the measurement is void.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Expected {
    /// 201 that is no replay.
    Fresh,
    /// 201 marked as a replay.
    Replayed,
}

/// What one load came to.
pub(super) struct Measured {
    /// Requests answered in a second.
    pub(super) rate: f64,
    /// The time of each request, ascending.
    pub(super) latencies: Vec<Duration>,
}

impl Measured {
    /// The time that this share of the requests stayed within.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index, and shares are within 0 and 1"
    )]
    pub(super) fn quantile(&self, share: f64) -> Duration {
        let last = self.latencies.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        self.latencies.get(at).copied().unwrap_or_default()
    }
}

impl Load<'_> {
    pub(super) fn run(&self) -> Outcome<Measured> {
        let share = self.keys.len().div_ceil(self.connections.get());
        let begun = now();
        let shares = thread::scope(|scope| {
            let workers: Vec<_> = self
                .keys
                .chunks(share)
                .map(|keys| scope.spawn(move || self.send_all(keys)))
                .collect();
            workers.into_iter().map(|worker| worker.join()).collect::<Vec<_>>()
        });
        let elapsed = begun.elapsed();
        let mut latencies = Vec::with_capacity(self.keys.len());
        for share in shares {
            let share = share.map_err(|_| Failure::new("a sender panicked"))?;
            latencies.extend(share.context("load")?);
        }
        latencies.sort_unstable();
        let count = u32::try_from(latencies.len()).context("load")?;
        Ok(Measured { rate: f64::from(count) / elapsed.as_secs_f64(), latencies })
    }

    fn send_all(&self, keys: &[Key]) -> io::Result<Vec<Duration>> {
        let connection = TcpStream::connect(self.target)?;
        connection.set_nodelay(true)?;
        connection.set_read_timeout(Some(LIMIT))?;
        let mut writer = connection.try_clone()?;
        let mut reader = BufReader::new(connection);
        let mut head = Vec::new();
        keys.iter()
            .map(|key| {
                let begun = now();
                writer.write_all(self.request(key).as_bytes())?;
                if !read_message(&mut reader, &mut head)? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.expected.check(&head)?;
                Ok(begun.elapsed())
            })
            .collect()
    }

    fn request(&self, key: &Key) -> String {
        let key = key.as_ref().map(|key| format!("Idempotency-Key: \"{key}\"\r\n"));
        format!(
            "POST /payments HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n{}\r\n{BODY}",
            self.target,
            BODY.len(),
            key.unwrap_or_default(),
        )
    }
}

impl Expected {
    fn check(self, head: &[u8]) -> io::Result<()> {
        let replayed = field(head, "idempotent-replayed").is_some();
        if head.starts_with(b"HTTP/1.1 201 ") && replayed == (self == Self::Replayed) {
            return Ok(());
        }
        Err(io::Error::other(format!("unexpected answer: {}", String::from_utf8_lossy(head))))
    }
}

/// Reads one message whose body has a `Content-Length` (none: no body), and leaves its head in
/// `head`. `false` when the connection was closed before it.
pub(super) fn read_message(reader: &mut impl BufRead, head: &mut Vec<u8>) -> io::Result<bool> {
    head.clear();
    while !head.ends_with(b"\r\n\r\n") {
        if reader.read_until(b'\n', head)? == 0 {
            let cut = io::Error::from(io::ErrorKind::UnexpectedEof);
            return if head.is_empty() { Ok(false) } else { Err(cut) };
        }
    }
    if field(head, "transfer-encoding").is_some() {
        return Err(io::Error::other("a chunked message: this reader knows Content-Length only"));
    }
    let length =
        field(head, "content-length").map_or(Ok(0), str::parse).map_err(io::Error::other)?;
    let read = io::copy(&mut reader.take(length), &mut io::sink())?;
    if read == length { Ok(true) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn field<'h>(head: &'h [u8], name: &str) -> Option<&'h str> {
    head.split(|&byte| byte == b'\n').skip(1).find_map(|line| {
        let (found, value) = str::from_utf8(line).ok()?.split_once(':')?;
        found.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

#[expect(clippy::disallowed_methods, reason = "threads without a runtime measure real time")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_to_its_end_and_no_further() {
        let mut stream: &[u8] =
            b"HTTP/1.1 201 Created\r\nContent-length: 2\r\n\r\n{}HTTP/1.1 204 No\r\n\r\n";
        let mut head = Vec::new();
        assert!(read_message(&mut stream, &mut head).unwrap());
        assert!(Expected::Fresh.check(&head).is_ok() && Expected::Replayed.check(&head).is_err());
        assert!(read_message(&mut stream, &mut head).unwrap());
        assert_eq!(head, b"HTTP/1.1 204 No\r\n\r\n");
        assert!(!read_message(&mut stream, &mut head).unwrap());
    }

    #[test]
    fn what_cannot_be_measured_is_an_error() {
        let cut_or_chunked: [&[u8]; 3] = [
            b"HTTP/1.1 201 Created\r\nContent-Le",
            b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\n{}",
            b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ];
        for mut stream in cut_or_chunked {
            assert!(read_message(&mut stream, &mut Vec::new()).is_err());
        }
    }

    #[test]
    fn a_quantile_is_one_of_the_measured_times() {
        let latencies = (1..=100).map(Duration::from_millis).collect();
        let measured = Measured { rate: 1.0, latencies };
        assert_eq!(measured.quantile(0.99), Duration::from_millis(99));
        assert_eq!(measured.quantile(1.0), Duration::from_millis(100));
    }
}
