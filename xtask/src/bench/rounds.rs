//! The rounds: everything that is compared, one after the other, so that what disturbs one disturbs
//! all alike.

use std::{net::SocketAddr, num::NonZeroU32, num::NonZeroUsize, process::Command, time::Duration};

use tempfile::TempDir;

use super::{
    disk,
    keys::Keys,
    load::{Load, Measured},
    message::Dialect,
    process::{Gateway, Nginx, Process, scratch},
    report::{Kind, Report},
};
use crate::run::{Outcome, answers};

/// What each program does before it is measured, so that its code is warm and its files are there.
const WARM_UP: Duration = Duration::from_millis(300);

/// All that is measured, running.
pub(super) struct Bench {
    upstream: SocketAddr,
    gateway: Gateway,
    nginx: Option<Nginx>,
    lasting: Duration,
    scratch: TempDir,
}

impl Bench {
    pub(super) fn start(upstream: SocketAddr, lasting: Duration) -> Outcome<Self> {
        let scratch = scratch()?;
        let gateway = Gateway::start(upstream, &scratch.path().join("bench.db"))?;
        let nginx = if answers(Command::new("nginx").arg("-v")) {
            Some(Nginx::start(upstream, scratch.path())?)
        } else {
            eprintln!("==> nginx is not installed: there is nothing to compare with");
            None
        };
        Ok(Self { upstream, gateway, nginx, lasting, scratch })
    }

    pub(super) fn measure(&self, rounds: NonZeroU32, report: &mut Report) -> Outcome {
        let targets = [Some(self.gateway.address), self.nginx.as_ref().map(|nginx| nginx.address)];
        for target in targets.into_iter().flatten() {
            load(target, report.most_connections(), WARM_UP, &mut Keys::None)?;
        }
        for round in 1..=rounds.get() {
            eprintln!("==> round {round} of {rounds}");
            report.syncs.push(disk::syncs(self.scratch.path(), self.lasting / 2)?);
            for connections in report.connections() {
                self.round(connections, report)?;
            }
        }
        Ok(())
    }

    fn round(&self, connections: NonZeroUsize, report: &mut Report) -> Outcome {
        let mut measure = |kind, target, process: Option<&Process>, keys: &mut Keys<'_>| {
            let time = || process.map_or(Ok(Duration::ZERO), Process::processor_time);
            let before = time()?;
            let mut measured = load(target, connections, self.lasting, keys)?;
            measured.processor_time = time()?.saturating_sub(before);
            report.add(kind, connections, measured);
            Ok(())
        };
        measure(Kind::Upstream, self.upstream, None, &mut Keys::None)?;
        if let Some(Nginx { process, address }) = &self.nginx {
            measure(Kind::Nginx, *address, Some(process), &mut Keys::None)?;
        }
        let (gateway, process) = (self.gateway.address, Some(&self.gateway.process));
        measure(Kind::PassThrough, gateway, process, &mut Keys::None)?;
        let mut keys = Vec::new();
        measure(Kind::First, gateway, process, &mut Keys::Fresh(&mut keys))?;
        measure(Kind::Replay, gateway, process, &mut Keys::again(&keys))
    }
}

fn load(
    target: SocketAddr,
    connections: NonZeroUsize,
    lasting: Duration,
    keys: &mut Keys<'_>,
) -> Outcome<Measured> {
    Load { target, dialect: &Dialect::default(), connections, lasting }.run(keys)
}
