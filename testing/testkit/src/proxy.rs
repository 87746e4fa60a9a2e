//! nginx and haproxy in front of gateways, with the configuration that `docs/recipes` shows.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;
use tokio::net::TcpSocket;

use crate::{
    Answer, Request,
    client::{Pending, RUNTIME, start},
    others::is_missing,
    process::Process,
    wait::eventually,
};

/// A proxy program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ProxyKind {
    /// nginx with `docs/recipes/nginx.conf`.
    Nginx,
    /// haproxy with `docs/recipes/haproxy.cfg`.
    Haproxy,
}

/// A running proxy in front of two addresses.
pub struct Proxy {
    address: SocketAddr,
    _process: Process,
    _reserved: TcpSocket,
    _dir: TempDir,
}

impl ProxyKind {
    const fn program(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
        }
    }

    /// Whether it is to be left out, because `cargo xtask test` could not install it and was told to
    /// go on.
    pub fn is_left_out(self) -> bool {
        is_missing(self.program())
    }

    /// Starts it in front of two gateways.
    ///
    /// # Panics
    /// When it is not installed: `cargo xtask setup` does that.
    #[track_caller]
    pub fn start(self, one: SocketAddr, two: SocketAddr) -> Proxy {
        let dir = tempfile::tempdir().expect("a directory");
        let _runtime = RUNTIME.enter();
        // Bound and never listening: the port stays ours until the proxy listens beside it.
        let reserved = TcpSocket::new_v4().expect("a socket");
        reserved.set_reuseaddr(true).expect("SO_REUSEADDR");
        reserved.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let address = reserved.local_addr().expect("an address");
        let mut command = Command::new(self.program());
        let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes");
        let recipe = |file: &str| fs::read_to_string(recipes.join(file)).expect("a recipe");
        let placed = |text: String| {
            text.replace("127.0.0.1:8080", &one.to_string())
                .replace("127.0.0.1:8090", &two.to_string())
        };
        let path = dir.path().join("proxy.conf");
        let path_text = path.display().to_string();
        match self {
            Self::Nginx => {
                let server = placed(recipe("nginx.conf"))
                    .replace("listen 80;", &format!("listen {address};"));
                let here = dir.path().display();
                let text = format!(
                    "daemon off;\nmaster_process off;\npid {here}/pid;\nerror_log stderr;\n\
                     events {{}}\nhttp {{\naccess_log off;\nclient_body_temp_path {here}/body;\n\
                     proxy_temp_path {here}/proxy;\nfastcgi_temp_path {here}/fastcgi;\n\
                     uwsgi_temp_path {here}/uwsgi;\nscgi_temp_path {here}/scgi;\n{server}}}\n"
                );
                fs::write(&path, text).expect("written");
                command.args(["-p", &here.to_string(), "-e", "stderr", "-c", &path_text]);
            }
            Self::Haproxy => {
                let text =
                    placed(recipe("haproxy.cfg")).replace("bind :80", &format!("bind {address}"));
                fs::write(&path, text).expect("written");
                command.args(["-db", "-f", &path_text]);
            }
        }
        let installed = Command::new(self.program()).arg("-v").stderr(Stdio::null()).output();
        assert!(installed.is_ok(), "{} is missing: run cargo xtask setup", self.program());
        let process = Process::spawn(self.program(), &mut command);
        let proxy = Proxy { address, _process: process, _reserved: reserved, _dir: dir };
        eventually("the proxy listens", Duration::from_secs(20), || {
            std::net::TcpStream::connect(address).is_ok()
        });
        proxy
    }
}

impl Proxy {
    /// Sends a request through it, and returns while it is under way.
    pub fn start(&self, request: &Request) -> Pending {
        start(self.address, request)
    }

    /// Sends a request through it and waits for the answer.
    #[track_caller]
    pub fn send(&self, request: &Request) -> Answer {
        self.start(request).answer()
    }
}
