//! The load: connections that send one request after the other, all on one thread, so that it costs
//! as little as it can of the cores that it shares with what is measured.

use std::{
    io::{self, ErrorKind, Write},
    net::SocketAddr,
    num::NonZeroUsize,
    time::{Duration, Instant},
};

use mio::{Events, Interest, Poll, Token, net::TcpStream};

use super::{
    keys::Keys,
    message,
    message::Dialect,
    upstream::{read_all, wait},
};
use crate::run::{Context, Failure, Outcome};

/// No answer takes this long.
const LIMIT: Duration = Duration::from_secs(20);

/// Requests from so many connections, for so long.
pub(super) struct Load<'a> {
    pub(super) target: SocketAddr,
    pub(super) dialect: &'a Dialect,
    pub(super) connections: NonZeroUsize,
    pub(super) lasting: Duration,
}

/// What one load came to.
#[derive(Default)]
pub(super) struct Measured {
    /// Requests answered in a second.
    pub(super) rate: f64,
    /// The processor time that what was measured took, over all requests; nothing where it is not
    /// told apart.
    pub(super) processor_time: Duration,
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
    /// Sends with these keys. Every answer has to be what it should, or the measurement is void.
    pub(super) fn run(&self, keys: &mut Keys<'_>) -> Outcome<Measured> {
        self.send(keys).context(format!("load on {}", self.target))
    }

    fn send(&self, keys: &mut Keys<'_>) -> io::Result<Measured> {
        let mut poll = Poll::new()?;
        let mut connections = (0..self.connections.get())
            .map(|at| Connection::open(self.target, &poll, at))
            .collect::<io::Result<Vec<_>>>()?;
        let begun = now();
        let ends = begun + self.lasting;
        let mut latencies = Vec::new();
        for connection in &mut connections {
            connection.send(self.dialect, keys)?;
        }
        let mut under_way = connections.len();
        let mut events = Events::with_capacity(1024);
        while under_way > 0 {
            wait(&mut poll, &mut events, Some(LIMIT))?;
            if events.is_empty() {
                return Err(ErrorKind::TimedOut.into());
            }
            for event in &events {
                let Some(connection) = connections.get_mut(event.token().0) else { continue };
                let Some(latency) = connection.receive(self.dialect, keys.are_replays())? else {
                    continue;
                };
                latencies.push(latency);
                if now() < ends {
                    connection.send(self.dialect, keys)?;
                } else {
                    under_way -= 1;
                }
            }
        }
        let elapsed = begun.elapsed();
        latencies.sort_unstable();
        let count = u32::try_from(latencies.len()).map_err(io::Error::other)?;
        let rate = f64::from(count) / elapsed.as_secs_f64();
        Ok(Measured { rate, latencies, ..Measured::default() })
    }
}

/// Connections that are open and at rest, until this is dropped.
pub(super) struct AtRest(
    #[expect(dead_code, reason = "they are held open")] Vec<std::net::TcpStream>,
);

impl Load<'_> {
    /// Opens the connections, sends one request on each, and leaves them open.
    pub(super) fn one_each(&self, keys: &mut Keys<'_>) -> Outcome<AtRest> {
        let one = |_| {
            let mut stream = std::net::TcpStream::connect(self.target)?;
            stream.set_read_timeout(Some(LIMIT))?;
            let mut bytes = Vec::new();
            self.dialect.write(&mut bytes, keys.next());
            stream.write_all(&bytes)?;
            bytes.clear();
            while message::answer(&bytes, "")?.is_none() {
                read_all(&mut stream, &mut bytes)?;
            }
            Ok(stream)
        };
        let open = (0..self.connections.get()).map(one).collect::<io::Result<_>>();
        open.map(AtRest).context(format!("connections to {}", self.target))
    }
}

struct Connection {
    stream: TcpStream,
    sent: Instant,
    /// What was sent last, or what has come of its answer.
    bytes: Vec<u8>,
}

impl Connection {
    fn open(target: SocketAddr, poll: &Poll, at: usize) -> io::Result<Self> {
        // Connecting is no part of what is measured.
        let stream = std::net::TcpStream::connect(target)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(at), Interest::READABLE)?;
        Ok(Self { stream, sent: now(), bytes: Vec::with_capacity(1024) })
    }

    fn send(&mut self, dialect: &Dialect, keys: &mut Keys<'_>) -> io::Result<()> {
        self.bytes.clear();
        dialect.write(&mut self.bytes, keys.next());
        self.sent = now();
        // A request is small, and the connection has nothing else under way: it has room.
        self.stream.write_all(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }

    /// How long the answer took, once it is there.
    fn receive(&mut self, dialect: &Dialect, replayed: bool) -> io::Result<Option<Duration>> {
        read_all(&mut self.stream, &mut self.bytes)?;
        let mark = dialect.replay_mark;
        let Some(answer) = message::answer(&self.bytes, mark.unwrap_or_default())? else {
            return Ok(None);
        };
        let latency = self.sent.elapsed();
        let as_marked = mark.is_none() || answer.replayed == replayed;
        if answer.status == dialect.status && as_marked && answer.length == self.bytes.len() {
            return Ok(Some(latency));
        }
        let text = String::from_utf8_lossy(&self.bytes);
        Err(io::Error::other(format!("unexpected answer ({answer}): {text}")))
    }
}

/// Waits until a target answers, for a bounded time.
pub(super) fn wait_until_up(target: SocketAddr, what: &str) -> Outcome {
    let begun = now();
    while begun.elapsed() < LIMIT {
        if std::net::TcpStream::connect(target).is_ok() {
            return Ok(());
        }
        pause(Duration::from_millis(5));
    }
    Err(Failure::new(format!("{what} does not listen on {target}")))
}

/// Between two looks at something that others do.
#[expect(clippy::disallowed_methods, reason = "a thread without a runtime")]
pub(super) fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[expect(clippy::disallowed_methods, reason = "threads without a runtime measure real time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::upstream::Upstream;

    fn load<'a>(target: &Upstream, dialect: &'a Dialect, connections: usize) -> Load<'a> {
        let connections = NonZeroUsize::new(connections).unwrap();
        Load { target: target.address(), dialect, connections, lasting: Duration::from_millis(50) }
    }

    #[test]
    fn every_answer_is_counted_once() {
        let (upstream, dialect) = (Upstream::start().unwrap(), Dialect::default());
        let mut made = Vec::new();
        let measured = load(&upstream, &dialect, 8).run(&mut Keys::Fresh(&mut made)).unwrap();
        assert_eq!(measured.latencies.len(), made.len());
        assert!(made.len() >= 8, "each connection sent one at least");
    }

    #[test]
    fn an_answer_that_is_none_of_the_expected_voids_the_measurement() {
        let (upstream, dialect) = (Upstream::start().unwrap(), Dialect::default());
        let known = ["0198c2f4-9a1e-7c55-9d0b-3f6a52e1b7aa".to_owned()];
        let replays = load(&upstream, &dialect, 1).run(&mut Keys::again(&known));
        assert!(replays.is_err_and(|error| error.to_string().contains("unexpected answer")));
        let dialect = Dialect { status: 200, ..dialect };
        assert!(load(&upstream, &dialect, 1).run(&mut Keys::None).is_err());
    }

    #[test]
    fn a_quantile_is_one_of_the_measured_times() {
        let latencies = (1..=100).map(Duration::from_millis).collect();
        let measured = Measured { rate: 1.0, latencies, ..Measured::default() };
        assert_eq!(measured.quantile(0.99), Duration::from_millis(99));
        assert_eq!(measured.quantile(1.0), Duration::from_millis(100));
    }
}
