//! A service that does nothing: one fixed answer, all connections on one thread.

use std::{
    collections::HashMap,
    io::{self, ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr},
    thread,
    time::Duration,
};

use mio::{
    Events, Interest, Poll, Token,
    net::{TcpListener, TcpStream},
};

use super::message;

const ANSWER: &[u8] = b"HTTP/1.1 201 Created\r\n\
    Content-Type: application/json\r\n\
    Location: /payments/1\r\n\
    Content-Length: 30\r\n\
    \r\n\
    {\"id\":\"1\",\"status\":\"accepted\"}";

const LISTENER: Token = Token(0);

/// The service, until the program ends.
pub(super) struct Upstream(SocketAddr);

impl Upstream {
    pub(super) fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = listener.local_addr()?;
        let poll = Poll::new()?;
        thread::spawn(move || serve(poll, listener));
        Ok(Self(address))
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.0
    }
}

struct Connection {
    stream: TcpStream,
    /// What has come and was not answered.
    unread: Vec<u8>,
}

impl Connection {
    fn new(mut stream: TcpStream, poll: &Poll, token: Token) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        poll.registry().register(&mut stream, token, Interest::READABLE)?;
        Ok(Self { stream, unread: Vec::new() })
    }
}

fn serve(mut poll: Poll, mut listener: TcpListener) -> io::Result<()> {
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut connections = HashMap::new();
    let mut last = LISTENER;
    let mut events = Events::with_capacity(1024);
    loop {
        wait(&mut poll, &mut events, None)?;
        for event in &events {
            if event.token() != LISTENER {
                let connection = connections.get_mut(&event.token());
                // A broken connection is seen by whoever is at its other end.
                if connection.is_some_and(|connection| answer(connection).is_err()) {
                    connections.remove(&event.token());
                }
                continue;
            }
            while let Ok((stream, _)) = listener.accept() {
                last = Token(last.0 + 1);
                // One that is broken already is nobody's.
                if let Ok(connection) = Connection::new(stream, &poll, last) {
                    connections.insert(last, connection);
                }
            }
        }
    }
}

/// Waits for events, whatever signals come meanwhile.
pub(super) fn wait(
    poll: &mut Poll,
    events: &mut Events,
    limit: Option<Duration>,
) -> io::Result<()> {
    loop {
        match poll.poll(events, limit) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            waited => return waited,
        }
    }
}

/// Answers what has come; an error at the end of the connection.
fn answer(connection: &mut Connection) -> io::Result<()> {
    read_all(&mut connection.stream, &mut connection.unread)?;
    let mut answered = 0;
    while let Some(length) =
        message::request(connection.unread.get(answered..).unwrap_or_default())?
    {
        answered += length;
        connection.stream.write_all(ANSWER)?;
    }
    connection.unread.drain(..answered);
    Ok(())
}

/// Reads what is there, until nothing more is; an error at the end of the stream.
pub(super) fn read_all(stream: &mut impl Read, into: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                into.extend_from_slice(buffer.get(..read).unwrap_or_default());
                // A stream that gave less than it was asked for has no more.
                if read < buffer.len() {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
