//! A TCP proxy that breaks what it passes on: where, when and as often as a test says.
//!
//! A fault ([`Fault`]) is about one way ([`Way`]) and comes once so many bytes were passed on that
//! way, unharmed. It is for the next connections ([`FaultProxy::on_connections`]), or for the next
//! turns ([`FaultProxy::on_turns`]): a turn is what one side sends until the other side sends
//! something, so with HTTP/1.1 a request or an answer, on whatever connection it comes.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy, sink},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::watch,
    task::JoinHandle,
    time::sleep,
};

use crate::{client::RUNTIME, wait::eventually};

/// How long anything that a test waits for may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where bytes go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// From the client: requests.
    ToServer,
    /// From the server: answers.
    ToClient,
}

/// What is done to bytes, and behind how many.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    kind: Kind,
    way: Way,
    after: usize,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Cut,
    Reset,
    Hold,
    Delay(Duration),
    Drip(Duration),
}

impl Fault {
    /// Both sides see a clean end of the connection (FIN).
    pub const fn cut(way: Way) -> Self {
        Self::new(Kind::Cut, way)
    }

    /// Both sides see a reset (RST).
    pub const fn reset(way: Way) -> Self {
        Self::new(Kind::Reset, way)
    }

    /// Nothing comes through, not even an end, until [`FaultProxy::release`].
    pub const fn hold(way: Way) -> Self {
        Self::new(Kind::Hold, way)
    }

    /// What follows comes this much later.
    pub const fn delay(way: Way, by: Duration) -> Self {
        Self::new(Kind::Delay(by), way)
    }

    /// What follows comes a byte at a time, with this much time before each.
    pub const fn drip(way: Way, every: Duration) -> Self {
        Self::new(Kind::Drip(every), way)
    }

    const fn new(kind: Kind, way: Way) -> Self {
        Self { kind, way, after: 0 }
    }

    /// Comes once so many bytes were passed on. Unless said it comes before the first: of a turn
    /// when that arrives, of a connection when it is made.
    #[must_use]
    pub const fn after(mut self, bytes: usize) -> Self {
        self.after = bytes;
        self
    }
}

/// What has passed through a proxy so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Connections that were accepted.
    pub connections: usize,
    /// Of these, those that are open.
    pub open: usize,
    /// Faults that came.
    pub faults: usize,
    /// Ways that are held now.
    pub held: usize,
    /// Bytes passed to the server.
    pub to_server: usize,
    /// Bytes passed to the client.
    pub to_client: usize,
}

/// A running proxy. Dropped, it closes what is open.
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    target: SocketAddr,
    counts: Mutex<Counts>,
    rules: Mutex<Vec<Rule>>,
    /// Each change releases what is held.
    released: watch::Sender<()>,
    /// Each change cuts what is open.
    cut: watch::Sender<()>,
}

/// A fault for the next so many.
struct Rule {
    fault: Fault,
    of: Of,
    left: usize,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Of {
    Connections,
    Turns,
}

impl FaultProxy {
    /// A proxy before an address, on a port of its own.
    ///
    /// # Panics
    /// When there is no port.
    pub fn before(target: SocketAddr) -> Self {
        let listener = RUNTIME.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            target,
            counts: Mutex::default(),
            rules: Mutex::default(),
            released: watch::Sender::new(()),
            cut: watch::Sender::new(()),
        });
        let accepting = RUNTIME.spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, accepting }
    }

    /// Where it is.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next so many connections have this fault.
    pub fn on_connections(&self, next: usize, fault: Fault) {
        self.rule(next, Of::Connections, fault);
    }

    /// The next so many turns that go the fault's way have it.
    pub fn on_turns(&self, next: usize, fault: Fault) {
        self.rule(next, Of::Turns, fault);
    }

    fn rule(&self, left: usize, of: Of, fault: Fault) {
        self.shared.rules.lock().push(Rule { fault, of, left });
    }

    /// No faults any more. What is held stays so until [`release`](Self::release).
    pub fn heal(&self) {
        self.shared.rules.lock().clear();
    }

    /// Lets all go on that is held now.
    pub fn release(&self) {
        self.shared.released.send_replace(());
    }

    /// Cuts every connection that is open now, cleanly, also what is held.
    pub fn cut_now(&self) {
        self.shared.cut.send_replace(());
    }

    /// What has passed through it so far.
    pub fn counts(&self) -> Counts {
        *self.shared.counts.lock()
    }

    /// Waits until the counts are as they should be.
    ///
    /// # Panics
    /// When they are not in time.
    #[track_caller]
    pub fn until(&self, what: &str, holds: impl Fn(Counts) -> bool) {
        eventually(what, PATIENCE, || holds(self.counts()));
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut_now();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        shared.count(|counts| counts.connections += 1);
        // Seen from here on, so that what is accepted is also cut.
        let cut = shared.cut.subscribe();
        tokio::spawn(Arc::clone(&shared).serve(client, cut));
    }
}

impl Shared {
    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.counts.lock());
    }

    /// The fault of a connection or a turn that begins now.
    fn next(&self, of: Of, way: Way) -> Option<Fault> {
        let mut rules = self.rules.lock();
        let mut fitting =
            rules.iter_mut().filter(|rule| (rule.of, rule.fault.way) == (of, way) && rule.left > 0);
        let rule = fitting.next()?;
        rule.left -= 1;
        Some(rule.fault)
    }

    async fn serve(self: Arc<Self>, client: TcpStream, cut: watch::Receiver<()>) {
        // Refused, as the client then sees by the end of its connection.
        let Ok(server) = TcpStream::connect(self.target).await else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        self.count(|counts| counts.open += 1);
        let (mut client, mut server) = (client, server);
        let end = self.pass_both(&mut client, &mut server, cut).await;
        self.count(|counts| counts.open -= 1);
        match end {
            End::Over => {}
            End::Cut => close_cleanly(client, server).await,
            End::Reset => {
                for side in [client, server] {
                    let _ = side.set_zero_linger();
                }
            }
        }
    }

    /// Passes bytes both ways until both are over, or a fault ends them.
    async fn pass_both(
        &self,
        client: &mut TcpStream,
        server: &mut TcpStream,
        mut cut: watch::Receiver<()>,
    ) -> End {
        let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
        let turn = Mutex::new(None);
        let passing = |way, from, to| Passing {
            shared: self,
            turn: &turn,
            way,
            from,
            to,
            state: State::Healthy,
        };
        let up = passing(Way::ToServer, from_client, to_server).run();
        let down = passing(Way::ToClient, from_server, to_client).run();
        let both = async { tokio::try_join!(up, down) };
        tokio::select! {
            ended = both => ended.err().unwrap_or(End::Over),
            _ = cut.changed() => End::Cut,
        }
    }
}

/// How a connection ends.
enum End {
    /// As its ends wished.
    Over,
    Cut,
    Reset,
}

impl From<io::Error> for End {
    /// What one side did to its connection is done to the other's.
    fn from(_: io::Error) -> Self {
        Self::Reset
    }
}

/// Bytes on one way of one connection.
struct Passing<'a> {
    shared: &'a Shared,
    /// Whose turn it is, of both ways.
    turn: &'a Mutex<Option<Way>>,
    way: Way,
    from: ReadHalf<'a>,
    to: WriteHalf<'a>,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Healthy,
    /// The fault comes.
    Ahead(Fault),
    Dripping(Duration),
}

impl From<Option<Fault>> for State {
    fn from(fault: Option<Fault>) -> Self {
        fault.map_or(Self::Healthy, Self::Ahead)
    }
}

impl Passing<'_> {
    async fn run(mut self) -> Result<(), End> {
        let of_connection = self.shared.next(Of::Connections, self.way);
        self.state = of_connection.into();
        self.pass(&[]).await?;
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let read = self.from.read(&mut buffer).await?;
            if read == 0 {
                self.to.shutdown().await?;
                return Ok(());
            }
            let begins = self.turn.lock().replace(self.way) != Some(self.way);
            if begins && of_connection.is_none() {
                self.state = self.shared.next(Of::Turns, self.way).into();
            }
            self.pass(buffer.get(..read).unwrap_or_default()).await?;
        }
    }

    /// Passes bytes on, as far as a fault lets them.
    async fn pass(&mut self, bytes: &[u8]) -> Result<(), End> {
        let fault = match self.state {
            State::Healthy => return self.write(bytes).await,
            State::Dripping(every) => return self.drip(bytes, every).await,
            State::Ahead(fault) => fault,
        };
        let (unharmed, rest) = bytes.split_at(fault.after.min(bytes.len()));
        self.write(unharmed).await?;
        let left = fault.after - unharmed.len();
        if left > 0 {
            self.state = State::Ahead(fault.after(left));
            return Ok(());
        }
        self.state = State::Healthy;
        self.shared.count(|counts| counts.faults += 1);
        match fault.kind {
            Kind::Cut => return Err(End::Cut),
            Kind::Reset => return Err(End::Reset),
            Kind::Hold => self.shared.hold().await,
            Kind::Delay(by) => sleep(by).await,
            Kind::Drip(every) => {
                self.state = State::Dripping(every);
                return self.drip(rest, every).await;
            }
        }
        self.write(rest).await
    }

    async fn drip(&mut self, bytes: &[u8], every: Duration) -> Result<(), End> {
        for byte in bytes.chunks(1) {
            sleep(every).await;
            self.write(byte).await?;
        }
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), End> {
        self.to.write_all(bytes).await?;
        self.shared.count(|counts| match self.way {
            Way::ToServer => counts.to_server += bytes.len(),
            Way::ToClient => counts.to_client += bytes.len(),
        });
        Ok(())
    }
}

impl Shared {
    async fn hold(&self) {
        let mut released = self.released.subscribe();
        let _held = Held::new(self);
        // Its sender is ours.
        let _ = released.changed().await;
    }
}

/// A way that is held, however that ends.
struct Held<'a>(&'a Shared);

impl<'a> Held<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.count(|counts| counts.held += 1);
        Self(shared)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.count(|counts| counts.held -= 1);
    }
}

/// Ends both sides, and reads what still comes until they have done the same: a socket that is
/// closed with bytes unread would reset its peer.
async fn close_cleanly(client: TcpStream, server: TcpStream) {
    let close = async |mut side: TcpStream| {
        let _ = side.shutdown().await;
        let _ = copy(&mut side, &mut sink()).await;
    };
    tokio::join!(close(client), close(server));
}
