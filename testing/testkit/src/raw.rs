//! A connection whose bytes the test writes itself: what no proper client would send.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use bytes::Bytes;
use rustls::StreamOwned;

use crate::{Answer, Gateway, TlsClient};

/// No byte takes longer to come.
const PATIENCE: Duration = Duration::from_secs(40);

/// A connection to the gateway.
pub struct Connection {
    stream: Box<dyn Stream>,
    /// What is below, where TLS is spoken.
    socket: TcpStream,
    read: Vec<u8>,
}

trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

impl Gateway {
    /// Opens a connection.
    #[track_caller]
    pub fn connect(&self) -> Connection {
        self.connect_by(|socket| Box::new(socket))
    }

    /// Opens a connection that speaks TLS.
    #[track_caller]
    pub fn connect_tls(&self, client: &TlsClient) -> Connection {
        self.connect_by(|socket| Box::new(StreamOwned::new(client.session(), socket)))
    }

    fn connect_by(&self, speaks: impl FnOnce(TcpStream) -> Box<dyn Stream>) -> Connection {
        let socket = TcpStream::connect(self.address()).expect("a connection");
        socket.set_nodelay(true).expect("TCP_NODELAY");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let stream = speaks(socket.try_clone().expect("the same socket"));
        Connection { stream, socket, read: Vec::new() }
    }

    /// Sends a whole request as it is written here, and reads the answer. The request should ask
    /// for `Connection: close`.
    #[track_caller]
    pub fn send_raw(&self, request: &str) -> Answer {
        let mut connection = self.connect();
        connection.write(request);
        connection.answer()
    }
}

impl Connection {
    /// Writes bytes at once.
    #[track_caller]
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_write(bytes).expect("the gateway takes the bytes");
    }

    /// Writes bytes, to a peer that may have closed.
    ///
    /// # Errors
    /// What the socket says.
    pub fn try_write(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// Reads until the text is there, and returns all that was read so far.
    #[track_caller]
    pub fn read_until(&mut self, text: &str) -> String {
        loop {
            let so_far = String::from_utf8_lossy(&self.read).into_owned();
            if so_far.contains(text) {
                return so_far;
            }
            assert!(self.read_more(), "the connection ended before {text:?}: {so_far}");
        }
    }

    /// Reads at least so many bytes more, whatever they are.
    #[track_caller]
    pub fn read_bytes(&mut self, count: usize) {
        let enough = self.read.len() + count;
        while self.read.len() < enough {
            assert!(self.read_more(), "the connection ended after {} bytes", self.read.len());
        }
    }

    /// Says that nothing more will be written, and goes on reading.
    pub fn finish_writing(&self) {
        self.socket.shutdown(Shutdown::Write).expect("half a close");
    }

    /// Closes the connection, whatever is under way.
    pub fn hang_up(self) {
        drop(self);
    }

    /// Reads to the end of the connection and returns all of it.
    #[track_caller]
    pub fn read_to_end(mut self) -> String {
        while self.read_more() {}
        String::from_utf8_lossy(&self.read).into_owned()
    }

    /// Reads to the end of the connection and returns the final answer.
    #[track_caller]
    pub fn answer(mut self) -> Answer {
        while self.read_more() {}
        let shown = || String::from_utf8_lossy(&self.read).into_owned();
        parse(&self.read).unwrap_or_else(|| panic!("no answer: {:?}", shown()))
    }

    /// Reads what is there; `false` at the end of the connection.
    #[track_caller]
    fn read_more(&mut self) -> bool {
        let mut buffer = vec![0; 64 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.read.extend_from_slice(&buffer[..count]);
                true
            }
            // Closed with bytes of ours unread; what came before is still an answer.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            // Cut within TLS.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => false,
            Err(error) => panic!("reading: {error}"),
        }
    }
}

/// The first final answer in these bytes.
fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = find(bytes, b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let body = &bytes[end + 4..];
    let mut lines = head.split("\r\n");
    let status: u16 = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    if status / 100 == 1 {
        return parse(body);
    }
    let headers: Vec<(String, Vec<u8>)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().as_bytes().to_vec()))
        .collect();
    let mut answer = Answer {
        status,
        headers,
        body: Bytes::copy_from_slice(body),
        trailers: Vec::new(),
        complete: true,
    };
    if answer.field("transfer-encoding").as_deref() == Some("chunked") {
        (answer.body, answer.complete) = dechunk(body);
    } else if let Some(length) = answer.field("content-length").and_then(|n| n.parse().ok()) {
        answer.complete = body.len() >= length;
        answer.body.truncate(length);
    }
    Some(answer)
}

/// The content of a chunked body, and whether its last chunk is there.
fn dechunk(mut bytes: &[u8]) -> (Bytes, bool) {
    let mut content = Vec::new();
    loop {
        let next = find(bytes, b"\r\n").and_then(|end| {
            let digits = std::str::from_utf8(&bytes[..end]).ok()?.split(';').next()?;
            let length = usize::from_str_radix(digits.trim(), 16).ok()?;
            Some((length, &bytes[end + 2..]))
        });
        match next {
            Some((0, _)) => return (content.into(), true),
            Some((length, rest)) if rest.len() >= length + 2 => {
                content.extend_from_slice(&rest[..length]);
                bytes = &rest[length + 2..];
            }
            _ => return (content.into(), false),
        }
    }
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}
