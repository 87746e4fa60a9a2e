//! All certificates of a process, and their renewal.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use metrics::{counter, gauge};
use parking_lot::Mutex;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, info};

use super::{ServerTls, TlsError, UpstreamTls};
use crate::{
    causes::with_causes,
    metric_definitions::{TLS_EXPIRY_SECONDS, TLS_RELOADS},
};

/// How often files are looked at.
const EVERY: Duration = Duration::from_secs(2);

/// The certificates of a process: those that its listeners show, and those that it shows to
/// services. Clones share them.
#[derive(Clone)]
pub struct Certificates {
    listeners: Vec<ServerTls>,
    /// Asked at every look: another configuration may have others.
    services: Arc<dyn Fn() -> Vec<UpstreamTls> + Send + Sync>,
    /// What was wrong at the last look, by name: said once.
    told: Arc<Mutex<HashMap<String, String>>>,
}

impl Certificates {
    /// Those of these listeners, and of the services that there are at each look.
    pub fn new(
        listeners: impl IntoIterator<Item = ServerTls>,
        services: impl Fn() -> Vec<UpstreamTls> + Send + Sync + 'static,
    ) -> Self {
        let listeners = listeners.into_iter().collect();
        Self { listeners, services: Arc::new(services), told: Arc::default() }
    }

    /// Reads every file anew, and takes over what has changed: for connections from now on, those
    /// that are there keep what they began with. Where something is wrong the old ones stay, and
    /// log and metrics say so. Returns whether all are right. It blocks on the file system.
    pub fn reload(&self) -> bool {
        let mut right = true;
        for tls in &self.listeners {
            right &= self.note(tls.listener(), tls.reloading().reload());
            if let Some(expires) = tls.reloading().expires() {
                gauge!(TLS_EXPIRY_SECONDS, "of" => tls.listener()).set(seconds_until(expires));
            }
        }
        let mut first = None;
        for tls in (self.services)() {
            right &= self.note(tls.service(), tls.reloading().reload());
            first = first.into_iter().chain(tls.reloading().expires()).min();
        }
        if let Some(expires) = first {
            gauge!(TLS_EXPIRY_SECONDS, "of" => "services").set(seconds_until(expires));
        }
        right
    }

    /// Does so every few seconds, for ever.
    pub async fn watch(self) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let all = self.clone();
            // Nothing depends on one look.
            let _ = tokio::task::spawn_blocking(move || all.reload()).await;
        }
    }

    /// Tells of a look, and says whether what is there is right.
    fn note(&self, name: &str, looked: Result<bool, TlsError>) -> bool {
        let mut told = self.told.lock();
        match looked {
            Ok(changed) => {
                told.remove(name);
                if changed {
                    counter!(TLS_RELOADS, "result" => "taken").increment(1);
                    info!(of = name, "new certificates are in use");
                }
                true
            }
            Err(error) => {
                let text = with_causes(&error);
                if told.get(name) != Some(&text) {
                    counter!(TLS_RELOADS, "result" => "refused").increment(1);
                    error!(of = name, error = %text, "new certificates are not used, the old ones stay");
                    told.insert(name.to_owned(), text);
                }
                false
            }
        }
    }
}

/// Negative where it is over.
fn seconds_until(time: SystemTime) -> f64 {
    match time.duration_since(SystemTime::now()) {
        Ok(left) => left.as_secs_f64(),
        Err(over) => -over.duration().as_secs_f64(),
    }
}
