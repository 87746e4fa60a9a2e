//! What is done with the disk: one thing at a time and beside those who serve requests. A disk that
//! hangs holds one thread, and nobody for longer than a bound.

use std::{
    io::{self, ErrorKind},
    sync::Arc,
    time::Duration,
};

use hapax::Ended as Execution;
use hapax_core::{Classified, RecordId};
use hapax_store::{Clock, SystemClock};
use tokio::{sync::oneshot, task::spawn_blocking, time::timeout};
use tracing::{error, warn};

use super::{
    Outage,
    hexadecimal::hexadecimal,
    passed::RunEnded,
    token,
    words::{ended, word},
};
use crate::spool::{Begun, Ended, Line, Spool};

/// How long anybody waits for the disk.
const DISK: Duration = Duration::from_secs(2);

/// What became of a line that was to be written before a request is sent.
pub(super) enum Noted {
    /// It is on disk.
    OnDisk,
    /// It is not, and will not be.
    Failed(io::Error),
    /// Nobody waits for it any more. If it gets there, it is noted too that nothing was sent.
    GivenUp,
}

/// The disk takes longer than anybody waits for it.
pub(super) struct Hangs {
    /// Whether it had begun with this work, and may still do it.
    is_begun: bool,
}

impl From<Hangs> for io::Error {
    fn from(_: Hangs) -> Self {
        ErrorKind::TimedOut.into()
    }
}

impl Outage {
    /// Does what may block, when its turn comes.
    ///
    /// # Errors
    /// When that takes too long.
    pub(super) async fn on_disk<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Hangs> {
        let turn = timeout(DISK, Arc::clone(&self.disk).lock_owned()).await;
        let turn = turn.map_err(|_| Hangs { is_begun: false })?;
        let outage = Arc::clone(self);
        let working = spawn_blocking(move || {
            let result = work(&outage);
            drop(turn);
            result
        });
        let worked = timeout(DISK, working).await.map(Result::ok);
        worked.ok().flatten().ok_or(Hangs { is_begun: true })
    }

    /// Notes that a request is about to be sent.
    pub(super) async fn note_begun(self: &Arc<Self>, id: RecordId, begun: Begun) -> Noted {
        let (tell, mut told) = oneshot::channel();
        let noting = self.on_disk(move |outage| {
            let run = begun.run.clone();
            let noted = outage.append(&Line::Begun(begun));
            if let Err(noted) = tell.send(noted) {
                outage.end_unsent(&id, &run, noted);
            }
        });
        let late = noting.await;
        told.close();
        match (told.try_recv(), late) {
            (Ok(Ok(())), _) => Noted::OnDisk,
            (Ok(Err(error)), _) => Noted::Failed(error),
            (Err(_), Err(Hangs { is_begun: true })) => Noted::GivenUp,
            (Err(_), Err(hangs)) => Noted::Failed(hangs.into()),
            (Err(_), Ok(())) => Noted::Failed(ErrorKind::BrokenPipe.into()),
        }
    }

    /// Notes what a request came to. Where that takes too long, it gets there later.
    pub(super) async fn note_ended(self: &Arc<Self>, ended: Ended) {
        let noting = self.on_disk(move |outage| outage.append(&Line::Ended(ended)));
        if let Err(error) = noting.await.map_err(io::Error::from).flatten() {
            warn!(%error, "the end of a request could not be noted");
        }
    }

    /// A request was given up before it was noted that it begins.
    fn end_unsent(&self, id: &RecordId, run: &str, noted: io::Result<()>) {
        if noted.is_err() {
            self.passed.lock().forget(Some(*id), run);
            return;
        }
        let ended = ended(run, &Execution::NeverSent);
        let came_to = RunEnded {
            as_first: Classified::NotApplied,
            word: word(false, &ended),
            status: None,
            at: SystemClock.now(),
            response: None,
        };
        self.passed.lock().end(id, ended.clone(), came_to);
        if let Err(error) = self.append(&Line::Ended(ended)) {
            warn!(%error, "it could not be noted that a request was not sent");
        }
    }

    fn append(&self, line: &Line) -> io::Result<()> {
        let Some(spool) = self.spool.lock().clone() else {
            return Err(io::Error::other("there is no spool"));
        };
        if spool.is_in_place() {
            return spool.append(line);
        }
        let path = spool.path().display();
        error!(%path, "the file of what ran unprotected was removed; all of it is noted anew");
        let replacing = self.new_spool()?;
        let lines = self.passed.lock().lines();
        lines.iter().try_for_each(|line| replacing.append(line))?;
        // What it noted is among them; noted twice it is brought in once.
        replacing.append(line)?;
        *self.spool.lock() = Some(replacing);
        Ok(())
    }

    /// Forgets the lines of what the store knows of, unless something is under way.
    pub(super) fn clear(&self) -> io::Result<()> {
        let Some(spool) = self.spool.lock().clone() else { return Ok(()) };
        // What begins after this look writes its line after the others are gone.
        spool.clear_if(|| self.passed.lock().runs().is_empty())
    }

    pub(super) fn new_spool(&self) -> io::Result<Arc<Spool>> {
        let name = hexadecimal(&token().map_err(io::Error::other)?);
        Spool::create(&self.database, &name).map(Arc::new)
    }
}
