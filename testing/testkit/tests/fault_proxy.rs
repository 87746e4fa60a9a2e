//! Each fault of the proxy, seen on the wire from both sides.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests: they block on sockets, and measure real time"
)]

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    time::{Duration, Instant},
};

use hapax_testkit::{Fault, FaultProxy, Way};

/// Both ends, and the proxy between them.
struct Wire {
    proxy: FaultProxy,
    listener: TcpListener,
}

/// One connection through the proxy: the client's end and the server's.
struct Ends {
    client: TcpStream,
    server: TcpStream,
}

impl Wire {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = FaultProxy::before(listener.local_addr().unwrap());
        Self { proxy, listener }
    }

    fn connect(&self) -> Ends {
        let client = TcpStream::connect(self.proxy.address()).unwrap();
        let (server, _) = self.listener.accept().unwrap();
        for end in [&client, &server] {
            end.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        }
        Ends { client, server }
    }

    fn came(&self, faults: usize) {
        self.proxy.until("the fault", |counts| counts.faults == faults);
    }
}

impl Ends {
    fn ask(&mut self, request: &str) {
        self.client.write_all(request.as_bytes()).unwrap();
        assert_eq!(read(&mut self.server, request.len()), request);
    }

    fn answer(&mut self, answer: &str) {
        self.server.write_all(answer.as_bytes()).unwrap();
        assert_eq!(read(&mut self.client, answer.len()), answer);
    }
}

fn read(from: &mut TcpStream, length: usize) -> String {
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).expect("the bytes come");
    String::from_utf8(bytes).unwrap()
}

/// What comes until the end, and whether that is clean.
fn rest(mut of: TcpStream) -> (String, Result<(), ErrorKind>) {
    let mut bytes = Vec::new();
    let end = of.read_to_end(&mut bytes).map(drop).map_err(|error| error.kind());
    (String::from_utf8(bytes).unwrap(), end)
}

/// Nothing has come, and the connection is open.
fn assert_silent(end: &TcpStream) {
    end.set_nonblocking(true).unwrap();
    let seen = end.peek(&mut [0]);
    assert_eq!(seen.expect_err("nothing there").kind(), ErrorKind::WouldBlock);
    end.set_nonblocking(false).unwrap();
}

#[test]
fn without_a_fault_all_passes_both_ways_and_so_does_the_end_of_one_way() {
    let wire = Wire::new();
    let mut ends = wire.connect();
    let large = "0123456789".repeat(200_000);
    let sent = large.clone();
    let mut client = ends.client.try_clone().unwrap();
    let sending = std::thread::spawn(move || client.write_all(sent.as_bytes()).unwrap());
    assert!(read(&mut ends.server, large.len()) == large);
    sending.join().unwrap();
    ends.client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(ends.server.read(&mut [0]).unwrap(), 0, "the end comes");
    ends.answer("all of it");
    drop(ends.server);
    assert_eq!(rest(ends.client), (String::new(), Ok(())));
    wire.proxy.until("it is over", |counts| counts.open == 0);
    let counts = wire.proxy.counts();
    assert_eq!((counts.connections, counts.faults), (1, 0), "{counts:?}");
    assert_eq!((counts.to_server, counts.to_client), (large.len(), 9), "{counts:?}");
}

#[test]
fn a_cut_before_an_answer_is_a_clean_end_for_both_and_none_of_it_comes() {
    let wire = Wire::new();
    wire.proxy.on_turns(1, Fault::cut(Way::ToClient));
    let mut ends = wire.connect();
    ends.ask("request");
    ends.server.write_all(b"answer").unwrap();
    assert_eq!(rest(ends.client), (String::new(), Ok(())));
    assert_eq!(rest(ends.server), (String::new(), Ok(())));
    wire.came(1);
}

#[test]
fn a_cut_after_some_bytes_lets_exactly_these_come() {
    for (way, mut sent) in [(Way::ToClient, "answer"), (Way::ToServer, "request")] {
        let wire = Wire::new();
        let mut ends = wire.connect();
        let (mut from, to) = match way {
            Way::ToServer => (ends.client, ends.server),
            Way::ToClient => {
                ends.ask("hello");
                (ends.server, ends.client)
            }
        };
        wire.proxy.on_turns(1, Fault::cut(way).after(4));
        // In pieces: the bytes are counted, not the reads.
        while !sent.is_empty() && from.write_all(&sent.as_bytes()[..1]).is_ok() {
            sent = &sent[1..];
        }
        let came = if way == Way::ToServer { "requ" } else { "answ" };
        assert_eq!(rest(to), (came.to_owned(), Ok(())));
        assert_eq!(rest(from), (String::new(), Ok(())), "{way:?}");
        wire.came(1);
    }
}

#[test]
fn a_cut_behind_a_whole_message_waits_for_nothing_more() {
    let wire = Wire::new();
    wire.proxy.on_turns(1, Fault::cut(Way::ToServer).after(7));
    let mut ends = wire.connect();
    ends.ask("request");
    assert_eq!(rest(ends.server), (String::new(), Ok(())));
    assert_eq!(rest(ends.client), (String::new(), Ok(())));
}

#[test]
fn a_reset_is_one_for_both_and_what_came_before_is_unharmed() {
    let wire = Wire::new();
    wire.proxy.on_turns(1, Fault::reset(Way::ToClient).after(4));
    let mut ends = wire.connect();
    ends.ask("request");
    ends.server.write_all(b"answ").unwrap();
    assert_eq!(read(&mut ends.client, 4), "answ");
    for end in [ends.client, ends.server] {
        assert_eq!(rest(end), (String::new(), Err(ErrorKind::ConnectionReset)));
    }
    wire.came(1);
}

#[test]
fn what_is_held_comes_when_it_is_released_and_the_other_way_is_free() {
    let wire = Wire::new();
    wire.proxy.on_turns(1, Fault::hold(Way::ToClient).after(2));
    let mut ends = wire.connect();
    ends.ask("request");
    ends.server.write_all(b"answer").unwrap();
    assert_eq!(read(&mut ends.client, 2), "an");
    wire.proxy.until("it is held", |counts| counts.held == 1);
    drop(ends.server);
    assert_silent(&ends.client);
    ends.client.write_all(b"more").unwrap();
    wire.proxy.until("the other way", |counts| counts.to_server == 11);
    wire.proxy.release();
    assert_eq!(read(&mut ends.client, 4), "swer");
    assert_eq!(wire.proxy.counts().held, 0);
}

#[test]
fn a_connection_that_is_held_is_accepted_and_hears_nothing_until_its_release() {
    let wire = Wire::new();
    wire.proxy.on_connections(1, Fault::hold(Way::ToServer));
    let mut ends = wire.connect();
    wire.proxy.until("it is held", |counts| counts.held == 1);
    ends.client.write_all(b"request").unwrap();
    assert_silent(&ends.server);
    wire.proxy.release();
    assert_eq!(read(&mut ends.server, 7), "request");
    ends.answer("answer");
}

#[test]
fn what_is_delayed_comes_that_much_later() {
    let wire = Wire::new();
    let by = Duration::from_millis(300);
    wire.proxy.on_turns(1, Fault::delay(Way::ToServer, by).after(3));
    let mut ends = wire.connect();
    let begun = Instant::now();
    ends.client.write_all(b"request").unwrap();
    assert_eq!(read(&mut ends.server, 3), "req");
    assert_eq!(read(&mut ends.server, 4), "uest");
    assert!(begun.elapsed() >= by, "{:?}", begun.elapsed());
    ends.answer("answer");
    ends.ask("again");
    wire.came(1);
}

#[test]
fn what_drips_comes_a_byte_at_a_time_until_the_turn_is_over() {
    let wire = Wire::new();
    let every = Duration::from_millis(20);
    wire.proxy.on_turns(1, Fault::drip(Way::ToClient, every).after(1));
    let mut ends = wire.connect();
    ends.ask("request");
    let begun = Instant::now();
    ends.server.write_all(b"answer").unwrap();
    let mut reads: Vec<Vec<u8>> = Vec::new();
    while reads.concat().len() < 6 {
        let mut buffer = [0; 16];
        let read = ends.client.read(&mut buffer).unwrap();
        reads.push(buffer[..read].to_vec());
    }
    assert_eq!(reads.concat(), b"answer");
    assert!(begun.elapsed() >= every * 5, "{:?}", begun.elapsed());
    assert!(reads.len() > 1, "at once: {reads:?}");
    wire.came(1);
    ends.ask("more");
    let begun = Instant::now();
    ends.answer(&"x".repeat(1000));
    assert!(begun.elapsed() < every * 1000, "{:?}", begun.elapsed());
}

#[test]
fn a_fault_is_for_the_next_so_many_turns_on_whatever_connection() {
    let wire = Wire::new();
    let (mut one, mut two) = (wire.connect(), wire.connect());
    one.ask("1");
    one.answer("fine");
    wire.proxy.on_turns(2, Fault::cut(Way::ToClient));
    for mut ends in [one, two] {
        // Another turn, however many pieces it has.
        ends.ask("2");
        ends.ask("3");
        ends.server.write_all(b"lost").unwrap();
        assert_eq!(rest(ends.client), (String::new(), Ok(())));
    }
    wire.came(2);
    two = wire.connect();
    two.ask("4");
    two.answer("fine again");
}

#[test]
fn a_fault_is_for_the_next_so_many_connections_and_counts_their_bytes() {
    let wire = Wire::new();
    wire.proxy.on_connections(1, Fault::cut(Way::ToClient).after(5));
    let mut ends = wire.connect();
    ends.ask("1");
    ends.answer("four");
    ends.ask("2");
    ends.server.write_all(b"four").unwrap();
    assert_eq!(rest(ends.client), ("f".to_owned(), Ok(())));
    let mut ends = wire.connect();
    ends.ask("1");
    ends.answer("more than five");
}

#[test]
fn a_connection_that_is_cut_when_it_is_made_carries_nothing() {
    let wire = Wire::new();
    wire.proxy.on_connections(1, Fault::cut(Way::ToServer));
    let ends = wire.connect();
    assert_eq!(rest(ends.client), (String::new(), Ok(())));
    assert_eq!(rest(ends.server), (String::new(), Ok(())));
}

#[test]
fn faults_last_until_it_is_told_otherwise() {
    let wire = Wire::new();
    wire.proxy.on_connections(usize::MAX, Fault::reset(Way::ToServer));
    for _ in 0..3 {
        assert_eq!(rest(wire.connect().client), (String::new(), Err(ErrorKind::ConnectionReset)));
    }
    wire.proxy.heal();
    let mut ends = wire.connect();
    ends.ask("request");
    ends.answer("answer");
    assert_eq!(wire.proxy.counts().faults, 3);
}

#[test]
fn cut_now_ends_what_is_open_and_what_is_held() {
    let wire = Wire::new();
    let mut idle = wire.connect();
    idle.ask("request");
    wire.proxy.on_turns(1, Fault::hold(Way::ToServer));
    let mut held = wire.connect();
    held.client.write_all(b"never comes").unwrap();
    wire.proxy.until("it is held", |counts| counts.held == 1);
    wire.proxy.cut_now();
    for ends in [idle, held] {
        assert_eq!(rest(ends.client), (String::new(), Ok(())));
        assert_eq!(rest(ends.server), (String::new(), Ok(())));
    }
    wire.proxy.until("all is closed", |counts| (counts.open, counts.held) == (0, 0));
    let mut ends = wire.connect();
    ends.ask("request");
}
