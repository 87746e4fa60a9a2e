//! A service that plays a script: what it does with each request that arrives, one after the other.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use hapax_client::{Intent, IntentBuilder};
use http::Method;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, sleep},
};

/// What is done with a request.
#[derive(Clone, Debug)]
pub(crate) enum Play {
    /// Answered, and the connection stays.
    Answer(String),
    /// Answered, and the connection is closed then, without a word of it.
    AnswerAndClose(String),
    /// Reset once it has arrived, before or after the effect: nobody can tell.
    Reset,
    /// The connection is reset before anything is read of it.
    ResetAtOnce,
    /// Only these bytes of an answer, and the end of the connection.
    Cut(String),
    /// No answer for so long.
    Hang,
    /// Answered after so long.
    Slow(Duration, String),
    /// One byte of an answer now and then.
    Drip(String),
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) text: String,
    pub(crate) at: Instant,
}

impl Arrival {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.text.lines();
        lines.find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }
}

/// A running service. It ends with the runtime of the test.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    arrivals: Arc<Mutex<Vec<Arrival>>>,
}

impl Server {
    /// A service that plays these one after the other, over all connections; after the last one it hangs.
    pub(crate) async fn playing(plays: impl IntoIterator<Item = Play>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let plays = Arc::new(Mutex::new(plays.into_iter().collect::<VecDeque<_>>()));
        let seen = Arc::clone(&arrivals);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (plays, seen) = (Arc::clone(&plays), Arc::clone(&seen));
                tokio::spawn(serve(stream, plays, seen));
            }
        });
        Self { address, arrivals }
    }

    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.arrivals.lock().unwrap().clone()
    }

    pub(crate) fn post(&self) -> IntentBuilder {
        self.send(Method::POST).body("{\"amount\":1200}")
    }

    pub(crate) fn send(&self, method: Method) -> IntentBuilder {
        Intent::of(method, format!("http://{}/payments", self.address).parse().unwrap())
    }
}

async fn serve(
    mut stream: TcpStream,
    plays: Arc<Mutex<VecDeque<Play>>>,
    seen: Arc<Mutex<Vec<Arrival>>>,
) {
    loop {
        let at_once = matches!(plays.lock().unwrap().front(), Some(Play::ResetAtOnce));
        if at_once {
            plays.lock().unwrap().pop_front();
            return reset(stream);
        }
        let Some(text) = read_request(&mut stream).await else { return };
        seen.lock().unwrap().push(Arrival { text, at: Instant::now() });
        let play = plays.lock().unwrap().pop_front().unwrap_or(Play::Hang);
        match play {
            Play::Answer(answer) => stream.write_all(answer.as_bytes()).await.unwrap(),
            Play::AnswerAndClose(answer) => {
                return stream.write_all(answer.as_bytes()).await.unwrap();
            }
            Play::Reset | Play::ResetAtOnce => return reset(stream),
            Play::Cut(bytes) => return stream.write_all(bytes.as_bytes()).await.unwrap(),
            Play::Hang => sleep(Duration::from_secs(600)).await,
            Play::Slow(after, answer) => {
                sleep(after).await;
                // Whoever has gone away gets none.
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
            Play::Drip(answer) => {
                for byte in answer.bytes() {
                    // Whoever has gone away gets no more.
                    if stream.write_all(&[byte]).await.is_err() {
                        return;
                    }
                    sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }
}

fn reset(stream: TcpStream) {
    let stream = stream.into_std().unwrap();
    let socket = socket2::Socket::from(stream);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
        });
        if body.len() >= length.unwrap_or(0) {
            return Some(text);
        }
    }
}

/// An answer with these fields, each with its end of line, and this content.
pub(crate) fn answer(status: u16, fields: &str, content: &str) -> String {
    let length = content.len();
    format!("HTTP/1.1 {status} X\r\n{fields}Content-Length: {length}\r\n\r\n{content}")
}

/// A problem of hapax with these fields.
pub(crate) fn problem(status: u16, name: &str, fields: &str) -> String {
    let fields = format!("Content-Type: application/problem+json\r\n{fields}");
    answer(status, &fields, &format!("{{\"type\":\"urn:hapax:problem:{name}\"}}"))
}
