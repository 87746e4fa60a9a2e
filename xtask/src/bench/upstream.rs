//! A service that does nothing: one fixed answer, one thread for each connection.

use std::{
    io::{self, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    thread,
};

use super::load::read_message;

const ANSWER: &[u8] = b"HTTP/1.1 201 Created\r\n\
    Content-Type: application/json\r\n\
    Location: /payments/1\r\n\
    Content-Length: 30\r\n\
    \r\n\
    {\"id\":\"1\",\"status\":\"accepted\"}";

/// The service, until the program ends.
pub(super) struct Upstream(SocketAddr);

impl Upstream {
    pub(super) fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                // A broken connection is seen by whoever is at its other end.
                thread::spawn(move || serve(connection).ok());
            }
        });
        Ok(Self(address))
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.0
    }
}

fn serve(connection: TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut writer = connection.try_clone()?;
    let mut reader = BufReader::new(connection);
    let mut head = Vec::new();
    while read_message(&mut reader, &mut head)? {
        writer.write_all(ANSWER)?;
    }
    Ok(())
}
