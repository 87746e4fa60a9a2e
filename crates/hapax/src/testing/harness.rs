//! What a test calls.

use std::{fmt, time::Duration};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::Body;
use http_body_util::Full;
use tower_service::Service;

use super::{
    Fault, Kind, Passed, Point, Report, Violations,
    judge::{Undisturbed, judge},
    report::{Tried, Violation},
    trial::{Asked, Seen, Trial, asking},
};
use crate::{Hapax, http::body::BoxError};

/// How long what is left of a world may take to end.
const DRAIN: Duration = Duration::from_secs(1);

/// An application as it is before the request, with nothing in it that another world shares.
pub struct World<S, F> {
    engine: Hapax,
    app: S,
    effects: F,
}

impl<S, F> World<S, F> {
    /// A world of this engine, this service and these effects.
    ///
    /// `app` is the application's service, such as an axum `Router`, with the layers of
    /// `engine` in it. `effects` counts what has happened: a name for each effect, and how often it
    /// did. An effect that may rightly happen several times has a name for each.
    ///
    /// ```
    /// # use axum::Router;
    /// # use hapax::{sqlx::{self, SqlitePool}, Hapax, testing::World};
    /// # fn app(_: &Hapax) -> Router { Router::new() }
    /// async fn world(h: Hapax, pool: SqlitePool) -> World<Router, impl AsyncFn() -> Vec<(&'static str, usize)>> {
    ///     World::new(&h, app(&h), async move || {
    ///         let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM orders");
    ///         let orders = count.fetch_one(&pool).await.expect("the table is there");
    ///         vec![("order", usize::try_from(orders).expect("few"))]
    ///     })
    /// }
    /// ```
    pub fn new(engine: &Hapax, app: S, effects: F) -> Self {
        Self { engine: engine.clone(), app, effects }
    }
}

impl<S, F> fmt::Debug for World<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

/// Repeats and fails the handler of a request: see the [module](super).
pub struct Harness<M> {
    asked: Asked,
    world: M,
    is_right: Option<Box<IsRight>>,
}

pub(super) type IsRight = dyn Fn(&Response<Bytes>) -> bool;

impl<M> fmt::Debug for Harness<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness").field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl<M> Harness<M> {
    /// A harness for the handler of this request, in worlds that `world` makes.
    ///
    /// What has to be there before the request, such as an account, `world` puts there; it may send
    /// requests itself. See the [module](super) for an example.
    pub fn new(request: Request<impl Into<Bytes>>, world: M) -> Self {
        let request = request.map(Into::into);
        let changed = with_another_query(&request);
        Self { asked: Asked { request, changed, copies: 3 }, world, is_right: None }
    }

    /// Another request under the same key, to be refused at every point. Unless given, it is the
    /// same one with a parameter more in its query.
    ///
    /// ```
    /// # use axum::http::Request;
    /// # use hapax::testing::Harness;
    /// # fn pay(amount: u32) -> Request<String> { Request::new(amount.to_string()) }
    /// # async fn world() {}
    /// let harness = Harness::new(pay(7), world).changed(pay(8));
    /// # let _ = harness;
    /// ```
    #[must_use]
    pub fn changed(mut self, request: Request<impl Into<Bytes>>) -> Self {
        self.asked.changed = request.map(Into::into);
        self
    }

    /// How many copies of the request come at once; 3 unless set.
    ///
    /// ```
    /// # use axum::http::Request;
    /// # use hapax::testing::Harness;
    /// # async fn world() {}
    /// let harness = Harness::new(Request::new(""), world).copies(20);
    /// # let _ = harness;
    /// ```
    #[must_use]
    pub fn copies(mut self, copies: usize) -> Self {
        self.asked.copies = copies;
        self
    }

    /// Which final answers are right.
    ///
    /// ```
    /// # use axum::http::{Request, StatusCode};
    /// # use hapax::testing::Harness;
    /// # async fn world() {}
    /// let harness = Harness::new(Request::new(""), world)
    ///     .right(|answer| answer.status() == StatusCode::CREATED && answer.body() == "ordered");
    /// # let _ = harness;
    /// ```
    #[must_use]
    pub fn right(mut self, is_right: impl Fn(&Response<Bytes>) -> bool + 'static) -> Self {
        self.is_right = Some(Box::new(is_right));
        self
    }

    /// Runs the handler undisturbed, then with every fault at every point, each in a world of its
    /// own, one after the other.
    ///
    /// # Errors
    /// [`Violations`]: all of them together, each with the point, the fault, what was seen and
    /// where to look. When already the undisturbed handler is wrong, nothing else is tried.
    pub async fn run<S, F, N, R>(&self) -> Result<Report, Violations>
    where
        M: AsyncFn() -> World<S, F>,
        F: AsyncFn() -> Vec<(N, usize)>,
        N: Into<String>,
        S: Service<Request<Full<Bytes>>, Response = Response<R>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<BoxError> + Send,
        R: Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BoxError>,
    {
        let once = async |disturbed| {
            let World { engine, app, effects } = (self.world)().await;
            let count = async || {
                let counted = effects().await.into_iter();
                counted.map(|(name, times)| (name.into(), times)).collect()
            };
            let effects_before = count().await;
            let trial = Trial::new(&self.asked, engine.clone(), asking(app), disturbed);
            let seen = trial.run().await;
            let effects = count().await;
            engine.shutdown(DRAIN).await;
            Seen { effects_before, effects, ..seen }
        };
        let mut report = Report::default();
        let first = once(None).await;
        let undisturbed = Undisturbed::of(&first);
        let mut violations = self.judge(&first, None);
        if violations.is_empty() {
            for (point, fault) in plan(&first.passed) {
                let seen = once(Some((point.clone(), fault))).await;
                let found = self.judge(&seen, Some(&undisturbed));
                let is_right = found.is_empty();
                report.tried.push(Tried { point, fault, end: seen.end, is_right });
                violations.extend(found);
            }
        }
        if violations.is_empty() { Ok(report) } else { Err(Violations { violations, report }) }
    }

    fn judge(&self, seen: &Seen, undisturbed: Option<&Undisturbed>) -> Vec<Violation> {
        judge(seen, undisturbed, self.is_right.as_deref())
    }
}

/// What is tried: every fault that makes sense at a moment that was passed.
fn plan(passed: &[Passed]) -> Vec<(Point, Fault)> {
    let mut points: Vec<&Point> = Vec::new();
    for passed in passed {
        if !points.contains(&&passed.point) {
            points.push(&passed.point);
        }
    }
    let finishes = points.iter().any(|point| point.kind() == Kind::Finish);
    let makes_sense = |point: &Point, fault: Fault| {
        let Some(moment) = fault.strikes(point.kind()) else { return false };
        // Copies cannot come while a transaction is open.
        let is_locked = finishes && point.kind() == Kind::Settle && fault == Fault::Repeat;
        !is_locked && passed.iter().any(|there| there.point == *point && there.moment == moment)
    };
    let of_point = |point: &Point| {
        let faults = Fault::ALL.into_iter().filter(|fault| makes_sense(point, *fault));
        faults.map(|fault| (point.clone(), fault)).collect::<Vec<_>>()
    };
    points.into_iter().flat_map(of_point).collect()
}

fn with_another_query(request: &Request<Bytes>) -> Request<Bytes> {
    let mut changed = request.clone();
    let uri = request.uri();
    let before = if uri.query().is_some() { '&' } else { '?' };
    // What was a URI is one with a parameter more.
    if let Ok(uri) = format!("{uri}{before}changed-by-hapax").parse::<Uri>() {
        *changed.uri_mut() = uri;
    }
    changed
}
