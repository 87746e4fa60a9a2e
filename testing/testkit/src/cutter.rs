//! A proxy that cuts connections at the worst moment: when the answer comes.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use parking_lot::Mutex;

/// Passes bytes both ways, and cuts when it is told to.
pub struct Cutter {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// How many answers are still to be cut off before their first byte is passed on.
    to_cut: AtomicUsize,
    cut: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
}

impl Cutter {
    /// A proxy before an address, on a port of its own.
    pub fn before(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::<Shared>::default();
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(target) else { continue };
                let (up, down) = (halves(&client, &server), halves(&server, &client));
                accepting.open.lock().extend([client, server]);
                thread::spawn(move || pass(up, None));
                let shared = Arc::clone(&accepting);
                thread::spawn(move || pass(down, Some(&shared)));
            }
        });
        Self { address, shared }
    }

    /// Where it is.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts off the next answers, as soon as they come: so many.
    pub fn cut_next(&self, answers: usize) {
        self.shared.to_cut.store(answers, Ordering::SeqCst);
    }

    /// Cuts every connection that is open now.
    pub fn cut_now(&self) {
        for stream in self.shared.open.lock().drain(..) {
            if stream.shutdown(Shutdown::Both).is_ok() {
                self.shared.cut.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    /// How often it has cut.
    pub fn cuts(&self) -> usize {
        self.shared.cut.load(Ordering::SeqCst)
    }
}

fn halves(from: &TcpStream, to: &TcpStream) -> (TcpStream, TcpStream) {
    (from.try_clone().expect("a handle"), to.try_clone().expect("a handle"))
}

/// Passes bytes on until either side ends, or its turn to be cut comes.
fn pass((mut from, mut to): (TcpStream, TcpStream), cutting: Option<&Shared>) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let is_cut = cutting.is_some_and(|shared| {
            let left = |left: usize| left.checked_sub(1);
            let taken = shared.to_cut.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
            taken.is_ok() && shared.cut.fetch_add(1, Ordering::SeqCst) < usize::MAX
        });
        if is_cut || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}
