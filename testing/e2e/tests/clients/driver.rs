//! How a client is run, and what it says came of its payments.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread::{self, JoinHandle},
};

use hapax_testkit::{Client, Ran, Request, fresh_key, hapax_typescript, node_modules, run};
use serde_json::Value;

use crate::scene::Scene;

/// A client with its script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Driver {
    pub(crate) client: Client,
    pub(crate) script: &'static str,
    /// Whether it waits as long as `Retry-After` says.
    pub(crate) honours_retry_after: bool,
    /// Whether it comes back by itself while the first request is executed.
    pub(crate) retries_in_flight: bool,
    /// How often it asks again for an outcome that is not known, and held.
    pub(crate) repeats_an_unknown_outcome: usize,
}

/// What came of a payment, as the client sees it.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    pub(crate) status: u64,
    /// The body, where the client shows it as it is.
    pub(crate) body: Option<String>,
    /// The payment.
    pub(crate) id: Option<String>,
    /// What the client threw.
    pub(crate) error: Option<String>,
    /// What a client of ours says that it came to.
    pub(crate) outcome: Option<String>,
}

/// A client that runs.
pub(crate) struct Running(JoinHandle<Ran>, PathBuf);

/// A payment under a key.
#[derive(Clone, Debug)]
pub(crate) struct Payment {
    pub(crate) key: String,
    pub(crate) amount: u64,
    /// What makes it large.
    pub(crate) note: String,
}

impl Payment {
    pub(crate) fn new() -> Self {
        Self { key: fresh_key(), amount: 1200, note: String::new() }
    }

    /// One whose key is left to the client.
    pub(crate) fn without_key() -> Self {
        Self { key: String::new(), ..Self::new() }
    }

    /// The same key for something else.
    pub(crate) fn changed(&self) -> Self {
        Self { amount: self.amount + 1, ..self.clone() }
    }

    pub(crate) fn json(&self) -> String {
        let Self { amount, note, .. } = self;
        format!("{{\"amount\":{amount},\"currency\":\"EUR\",\"note\":\"{note}\"}}")
    }

    /// As a client of ours would send it.
    pub(crate) fn request(&self) -> Request {
        Request::payment(&self.key).json(&self.json())
    }
}

impl Driver {
    pub(crate) fn is_left_out(&self) -> bool {
        self.client.is_left_out()
    }

    /// Whether it speaks of charges instead of payments.
    pub(crate) fn charges(&self) -> bool {
        self.script.starts_with("charge")
    }

    /// What the service does with the requests of this client.
    pub(crate) fn service_does(&self, scene: &Scene, script: &str) {
        scene.upstream.script(if self.charges() { "v1-charges" } else { "payments" }, script);
    }

    /// Makes a payment, and waits for what comes of it.
    #[track_caller]
    pub(crate) fn pay(&self, scene: &Scene, payment: &Payment) -> Came {
        self.start(scene, std::slice::from_ref(payment)).came().remove(0)
    }

    /// Makes payments, one after the other.
    pub(crate) fn start(&self, scene: &Scene, payments: &[Payment]) -> Running {
        let shown = scene.dir().join(fresh_key());
        let mut command = self.command(scene);
        for payment in payments {
            command.arg(&payment.key);
            match (self.charges(), self.client) {
                (true, _) => command.arg(payment.amount.to_string()),
                (false, Client::Curl | Client::Hapax) => {
                    let file = scene.dir().join(fresh_key());
                    fs::write(&file, payment.json()).expect("written");
                    command.arg(format!("@{}", file.display())).arg(&shown)
                }
                (false, _) => command.arg(payment.json()),
            };
        }
        Running(thread::spawn(move || run(&mut command)), shown)
    }

    fn command(&self, scene: &Scene) -> Command {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients");
        let mut command = self.client.interpreter();
        let script = scripts.join(self.script);
        let script = match self.client {
            Client::NodeStripe => beside(&script, scene.dir(), "node_modules", &node_modules()),
            Client::NodeHapax => beside(&script, scene.dir(), HAPAX, &hapax_typescript()),
            _ => script,
        };
        find_hapax(&mut command);
        command.arg(script).arg(scene.url(if self.charges() { "" } else { "/payments" }));
        command
    }
}

/// Where a module finds our own client.
pub(crate) const HAPAX: &str = "node_modules/@hapax/client";

/// Has Python find our own client, and write nothing beside it.
pub(crate) fn find_hapax(command: &mut Command) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python/src");
    command.env("PYTHONPATH", source).env("PYTHONDONTWRITEBYTECODE", "1");
}

/// A module finds others by where it lies itself: a copy of a script, beside a link to what it needs.
pub(crate) fn beside(script: &Path, dir: &Path, name: &str, modules: &Path) -> PathBuf {
    let link = dir.join(name);
    if !link.exists() {
        fs::create_dir_all(link.parent().expect("a parent")).expect("a directory");
        std::os::unix::fs::symlink(modules, link).expect("a link");
    }
    let here = dir.join(script.file_name().expect("a name"));
    fs::copy(script, &here).expect("a copy");
    here
}

impl Running {
    /// What came of each payment.
    #[track_caller]
    pub(crate) fn came(self) -> Vec<Came> {
        let ran = self.0.join().expect("it runs");
        let lines: Vec<_> = ran.stdout.lines().map(str::to_owned).collect();
        assert!(!lines.is_empty(), "{ran:?}");
        // Those of the shell print the status, and write the body into a file.
        if let Ok(status) = lines[0].parse() {
            let body = fs::read_to_string(&self.1).unwrap_or_default();
            return vec![Came::from_body(status, body)];
        }
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let parsed = lines.iter().map(|line| serde_json::from_str(line).expect("JSON"));
        parsed.map(Came::from_line).collect()
    }
}

impl Came {
    fn from_line(line: Value) -> Self {
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        // 0 where there was none.
        let status = line["status"].as_u64().unwrap_or_default();
        let outcome = text("came");
        match text("body") {
            Some(body) => Self { outcome, ..Self::from_body(status, body) },
            // An SDK shows the object alone.
            None => Self { status, body: None, id: text("id"), error: text("error"), outcome },
        }
    }

    fn from_body(status: u64, body: String) -> Self {
        let json: Value = serde_json::from_str(&body).unwrap_or_default();
        let id = json["id"].as_str().map(str::to_owned);
        Self { status, body: Some(body), id, error: None, outcome: None }
    }

    /// Asserts that it is the outcome of a payment that took effect once, the `n`th effect there is.
    #[track_caller]
    pub(crate) fn assert_outcome(&self, scene: &Scene, payment: &Payment, n: usize) {
        assert_eq!(self.id, Some(format!("pay_{n}")), "{self:?}");
        scene.upstream.assert_effects(n);
        if let Some(body) = &self.body {
            assert_eq!(self.status, 201, "{self:?}");
            let replay = scene.gateway.send(&payment.request());
            assert!(replay.is_replay(), "{replay:?}");
            assert_eq!(*body, replay.text(), "the bytes that are kept");
        }
    }
}
