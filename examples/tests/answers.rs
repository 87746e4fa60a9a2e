//! The table of `docs/library.md` that says what an answer of a handler means is so.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use hapax::{Execution, Hapax, Tx, sqlx};
use hapax_testkit::fresh_key;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use tower::ServiceExt;

/// What becomes of the key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Then {
    Kept,
    Free,
    GoesOn,
    Unknown,
}

const PANICS: u16 = 0;

use Then::{Free, GoesOn, Kept, Unknown};

/// The rows of the table, each with its columns: `Tx`, before and after a step, bracketed.
const TABLE: [(&[u16], [Then; 4]); 5] = [
    (&[200, 201, 202, 204, 301, 302, 303], [Kept, Kept, Kept, Kept]),
    (&[402, 403, 404, 409, 410, 412, 451], [Kept, Free, Kept, Kept]),
    (&[400, 401, 422, 429, 413, 415], [Free, Free, GoesOn, Free]),
    (&[500, 502, 503, 504, 418], [Free, Free, GoesOn, Unknown]),
    (&[PANICS], [Free, Free, GoesOn, Unknown]),
];

const WAYS: [&str; 4] = ["/tx", "/before", "/after", "/bracketed"];

#[tokio::test]
async fn the_table_of_answers_is_so() {
    let dir = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new().filename(dir.path().join("app.db"));
    let pool =
        SqlitePoolOptions::new().connect_with(options.create_if_missing(true)).await.unwrap();
    let h = Hapax::sqlite(&pool).single_tenant().open().await.unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let app = app(&h, &calls);
    for (statuses, columns) in TABLE {
        for status in statuses {
            for (way, expected) in WAYS.into_iter().zip(columns) {
                let told = then(&app, &calls, way, *status).await;
                assert_eq!(told, expected, "{way} {status}");
            }
        }
    }
    h.shutdown(std::time::Duration::from_secs(5)).await;
}

fn app(h: &Hapax, calls: &Arc<AtomicUsize>) -> Router {
    let tx = {
        let calls = calls.clone();
        async move |_: Tx, headers: HeaderMap| answer(&calls, &headers)
    };
    let before = {
        let calls = calls.clone();
        async move |_: Execution, headers: HeaderMap| answer(&calls, &headers)
    };
    let after = {
        let calls = calls.clone();
        async move |mut x: Execution, headers: HeaderMap| {
            x.step("step", async |_| Ok::<(), sqlx::Error>(())).await.unwrap();
            answer(&calls, &headers)
        }
    };
    let bracketed = {
        let calls = calls.clone();
        async move |headers: HeaderMap| answer(&calls, &headers)
    };
    Router::new()
        .route("/tx", h.operation("tx").post(tx))
        .route("/before", h.operation("before").post(before))
        .route("/after", h.operation("after").post(after))
        .route("/bracketed", post(bracketed).layer(h.operation("bracketed").bracketed()))
}

fn answer(calls: &AtomicUsize, headers: &HeaderMap) -> Response {
    calls.fetch_add(1, Ordering::SeqCst);
    match headers["x-status"].to_str().unwrap().parse().unwrap() {
        PANICS => panic!("on purpose"),
        status => StatusCode::from_u16(status).unwrap().into_response(),
    }
}

/// What becomes of the key, by what the next two requests with it get.
async fn then(app: &Router, calls: &AtomicUsize, way: &str, status: u16) -> Then {
    let key = fresh_key();
    let send = async |body: &'static str| {
        let before = calls.load(Ordering::SeqCst);
        let request = Request::post(way)
            .header("idempotency-key", format!("\"{key}\""))
            .header("x-status", status)
            .body(Body::from(body))
            .unwrap();
        let answer = app.clone().oneshot(request).await.unwrap();
        let field = |name| answer.headers().get(name).map(|value| value.to_str().unwrap());
        let outcome = field("hapax-outcome").unwrap_or_default().to_owned();
        let replayed = field("idempotent-replayed").is_some();
        (answer.status().as_u16(), outcome, replayed, calls.load(Ordering::SeqCst) > before)
    };
    let (_, outcome, _, called) = send("this").await;
    assert!(called, "{way} {status}");
    // A changed request is taken if the key is free, and only then.
    let (changed, _, _, changed_called) = send("that").await;
    if changed_called {
        // Said where the status does not say it by itself.
        assert_ne!(outcome, "unknown", "{way} {status}: {changed}");
        return Free;
    }
    assert_ne!(outcome, "not-applied", "{way} {status}");
    assert_eq!(changed, 422, "{way} {status}");
    let (_, again, replayed, called) = send("this").await;
    match (replayed, called) {
        (true, false) => Kept,
        (false, true) => GoesOn,
        (false, false) => {
            assert_eq!(
                (outcome.as_str(), again.as_str()),
                ("unknown", "unknown"),
                "{way} {status}"
            );
            Unknown
        }
        (true, true) => panic!("{way} {status}: replayed and called"),
    }
}
