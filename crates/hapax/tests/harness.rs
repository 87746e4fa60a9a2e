//! The harness for handlers: right ones pass it, and each mistake that it is made for is caught.
#![cfg(all(feature = "axum", feature = "sqlite", feature = "testing"))]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{Request, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use hapax::{
    Attempt, EffectId, Execution, Hapax, Interrupted, OnUnknown, Step, StepError, Tx,
    sqlx::{
        self, SqlitePool,
        sqlite::{SqliteConnectOptions, SqliteConnection},
    },
    testing::{self, End, Fault, Harness, Report, Rule, Violations, World},
};
use parking_lot::Mutex;
use tempfile::TempDir;

const HOUR: Duration = Duration::from_secs(3600);

enum AppError {
    Bank,
    Database,
    Interrupted(Interrupted),
}

impl From<sqlx::Error> for AppError {
    fn from(_: sqlx::Error) -> Self {
        Self::Database
    }
}

impl From<Interrupted> for AppError {
    fn from(why: Interrupted) -> Self {
        Self::Interrupted(why)
    }
}

impl From<StepError<Self>> for AppError {
    fn from(error: StepError<Self>) -> Self {
        match error {
            StepError::Failed(error) => error,
            StepError::Interrupted(why) => why.into(),
        }
    }
}

impl From<StepError<sqlx::Error>> for AppError {
    fn from(error: StepError<sqlx::Error>) -> Self {
        error.into_error()
    }
}

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        match self {
            Self::Bank => StatusCode::BAD_GATEWAY.into_response(),
            Self::Database => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            Self::Interrupted(why) => why.into_response(),
        }
    }
}

/// Something outside: what it does under one identity is one effect.
#[derive(Clone, Default)]
struct Bank(Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>);

impl Bank {
    /// Acts once under this identity.
    #[expect(clippy::unused_async, reason = "as one over a network")]
    async fn act(&self, name: &str, id: impl ToString) -> Result<usize, AppError> {
        let mut acts = self.0.lock();
        let ids = acts.entry(name.to_owned()).or_default();
        ids.insert(id.to_string());
        if ids.is_empty() { Err(AppError::Bank) } else { Ok(ids.len()) }
    }

    /// Acts, whatever was done before.
    async fn act_anew(&self, name: &str) -> Result<usize, AppError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).unwrap();
        self.act(name, u128::from_le_bytes(random)).await
    }

    fn effects(&self) -> Vec<(String, usize)> {
        self.0.lock().iter().map(|(name, ids)| (name.clone(), ids.len())).collect()
    }
}

/// An application's database, with the effects in it and outside.
#[derive(Clone)]
struct Shop {
    bank: Bank,
    pool: SqlitePool,
    _directory: Arc<TempDir>,
}

impl Shop {
    async fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = SqliteConnectOptions::new()
            .filename(directory.path().join("shop.db"))
            .create_if_missing(true)
            // A writer beside a transaction is not to wait for it.
            .busy_timeout(Duration::from_millis(1));
        let pool = SqlitePool::connect_with(file).await.unwrap();
        for table in ["CREATE TABLE orders (item TEXT)", "CREATE TABLE paid (item TEXT)"] {
            sqlx::query(table).execute(&pool).await.unwrap();
        }
        Self { bank: Bank::default(), pool, _directory: Arc::new(directory) }
    }

    async fn effects(&self) -> Vec<(String, usize)> {
        let mut effects = self.bank.effects();
        for (table, count) in
            [("orders", "SELECT count(*) FROM orders"), ("paid", "SELECT count(*) FROM paid")]
        {
            let rows = sqlx::query_scalar::<_, i64>(count).fetch_one(&self.pool).await.unwrap();
            effects.push((table.to_owned(), usize::try_from(rows).unwrap()));
        }
        effects
    }
}

async fn insert(tx: &mut SqliteConnection, into: &'static str) -> Result<i64, sqlx::Error> {
    Ok(sqlx::query(into).execute(tx).await?.last_insert_rowid())
}

const ORDER: &str = "INSERT INTO orders VALUES ('tea')";
const PAID: &str = "INSERT INTO paid VALUES ('tea')";

fn request() -> Request<&'static str> {
    Request::post("/act")
        .header("idempotency-key", "8e03978e-40d5-43dd-bc93-6894a57f9324")
        .body("{\"amount\":7}")
        .unwrap()
}

/// Runs an application whose effects are outside, on the store in memory.
async fn in_memory(app: impl Fn(&Hapax) -> Router<Bank>) -> Result<Report, Violations> {
    Harness::new(request(), async || {
        let (h, bank) = (Hapax::in_memory(), Bank::default());
        let app = app(&h).with_state(bank.clone());
        World::new(&h, app, async move || bank.effects())
    })
    .run()
    .await
}

/// Runs an application on SQLite.
async fn on_sqlite(app: impl Fn(&Hapax) -> Router<Shop>) -> Result<Report, Violations> {
    Harness::new(request(), async || {
        let shop = Shop::open().await;
        let h = Hapax::sqlite(&shop.pool).single_tenant().open().await.unwrap();
        let app = app(&h).with_state(shop.clone());
        World::new(&h, app, async move || shop.effects().await)
    })
    .run()
    .await
}

fn passes(result: Result<Report, Violations>) -> Report {
    result.unwrap_or_else(|violations| panic!("{violations}"))
}

/// The rules that were broken, and where.
fn broken(result: &Result<Report, Violations>) -> BTreeSet<(String, Rule)> {
    let violations = match result {
        Ok(report) => panic!("not caught:\n{report}"),
        Err(violations) => violations,
    };
    let place = |at: &Option<(testing::Point, Fault)>| match at {
        Some((point, fault)) => format!("{} {fault:?}", point.name()),
        None => "undisturbed".to_owned(),
    };
    violations.all().iter().map(|violation| (place(&violation.at), violation.rule)).collect()
}

fn held(report: &Report) -> Vec<String> {
    let held = report.tried().iter().filter(|tried| tried.end == End::OnHold);
    held.map(|tried| format!("{} {:?}", tried.point.name(), tried.fault)).collect()
}

async fn pay(State(bank): State<Bank>, mut x: Execution) -> Result<String, AppError> {
    x.pure("limits", async || Ok::<_, AppError>(7)).await?;
    let reserved = x.call("reserve", async |id: EffectId| bank.act("reserve", id).await).await?;
    let charge = Step::new("charge").resend_for(HOUR);
    let charged = x.call(charge, async |id: EffectId| bank.act("charge", id).await).await?;
    x.idempotent("notify", async |id: EffectId| bank.act("notify", id).await).await?;
    Ok(format!("{reserved} {charged} in attempt {}", x.attempt().number()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execution_of_several_steps_has_its_effects_once_wherever_it_is_disturbed() {
    let app = |h: &Hapax| Router::new().route("/act", h.operation("pay").post(pay));
    let report = passes(in_memory(app).await);
    let only_where_nothing_else_is_permitted =
        ["Begun", "After", "Lost", "Panic", "Hang"].map(|fault| format!("reserve {fault}"));
    let mut held = held(&report);
    // Who stood still may have been before the one who asked for it, or not.
    held.retain(|held| held != "reserve Stall");
    assert_eq!(held, only_where_nothing_else_is_permitted);
    println!("{report}");
    assert!(report.to_string().lines().count() > 5, "{report}");
}

#[tokio::test]
async fn a_service_that_is_protected_as_a_whole_is_held_or_resent() {
    async fn charge(State(bank): State<Bank>, attempt: Attempt) -> Result<String, AppError> {
        bank.act("charge", attempt.effect_id()).await?;
        Ok(attempt.number().to_string())
    }
    let layer = |h: &Hapax| h.operation("pay").bracketed();
    let app = |h: &Hapax| Router::new().route("/act", post(charge).layer(layer(h)));
    let report = passes(in_memory(app).await);
    assert!(!held(&report).is_empty(), "{report}");
    let resends = |h: &Hapax| {
        layer(h).policy(|policy| {
            policy.on_unknown = OnUnknown::Resend;
            policy.collapse_for = Some(HOUR);
        })
    };
    let app = |h: &Hapax| Router::new().route("/act", post(charge).layer(resends(h)));
    let report = passes(in_memory(app).await);
    assert_eq!(held(&report), [""; 0], "{report}");
    println!("{report}");
}

#[tokio::test]
async fn a_transaction_has_its_effects_once_and_is_never_held() {
    async fn create(mut tx: Tx) -> Result<String, AppError> {
        let order = insert(&mut tx, ORDER).await?;
        insert(&mut tx, PAID).await?;
        Ok(order.to_string())
    }
    let app = |h: &Hapax| Router::new().route("/act", h.operation("create").post(create));
    let report = passes(on_sqlite(app).await);
    assert_eq!(held(&report), [""; 0], "{report}");
    println!("{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_in_the_database_beside_calls_have_their_effects_once() {
    async fn order(State(shop): State<Shop>, mut x: Execution) -> Result<String, AppError> {
        let bank = &shop.bank;
        let order = x.step("ordered", async |tx| insert(tx, ORDER).await).await?;
        let charge = Step::new("charge").resend_for(HOUR);
        let charged = x.call(charge, async |id: EffectId| bank.act("charge", id).await).await?;
        let paid = async |tx: &mut SqliteConnection| {
            insert(tx, PAID).await?;
            Ok(format!("{order} {charged}"))
        };
        x.finish(paid).await
    }
    let app = |h: &Hapax| Router::new().route("/act", h.operation("order").post(order));
    let report = passes(on_sqlite(app).await);
    assert_eq!(held(&report), [""; 0], "{report}");
    println!("{report}");
}

#[tokio::test]
async fn an_effect_outside_of_any_step_is_caught() {
    async fn pay(State(bank): State<Bank>, mut x: Execution) -> Result<String, AppError> {
        let charge = Step::new("charge").resend_for(HOUR);
        x.call(charge, async |id: EffectId| bank.act("charge", id).await).await?;
        bank.act_anew("mail").await?;
        x.pure("receipt", async || Ok::<_, AppError>(())).await?;
        Ok(String::new())
    }
    let app = |h: &Hapax| Router::new().route("/act", h.operation("pay").post(pay));
    let result = in_memory(app).await;
    let broken = broken(&result);
    assert!(broken.contains(&("receipt Before".to_owned(), Rule::EffectsOnce)), "{broken:?}");
    assert!(!broken.iter().any(|(place, _)| place == "charge Before"), "{broken:?}");
    let text = result.unwrap_err().to_string();
    assert!(text.contains("`mail` happened 2 times; answers: 200"), "{text}");
    assert!(text.contains("what is done outside of a step is done by every attempt"), "{text}");
    println!("{text}");
}

#[tokio::test]
async fn a_call_that_ignores_its_effect_id_is_caught() {
    async fn pay(State(bank): State<Bank>, mut x: Execution) -> Result<String, AppError> {
        let charge = Step::new("charge").resend_for(HOUR);
        x.call(charge, async |_| bank.act_anew("charge").await).await?;
        Ok(String::new())
    }
    let app = |h: &Hapax| Router::new().route("/act", h.operation("pay").post(pay));
    let expected = ["After", "Lost", "Panic", "Hang", "Stall"];
    let expected = expected.map(|fault| (format!("charge {fault}"), Rule::EffectsOnce));
    assert_eq!(broken(&in_memory(app).await), expected.into_iter().collect());
}

#[tokio::test]
async fn a_step_that_is_renamed_by_each_attempt_is_caught() {
    async fn pay(State(bank): State<Bank>, mut x: Execution) -> Result<String, AppError> {
        let name = format!("charge-{}", x.attempt().number().number());
        let charge = Step::new(&name).resend_for(HOUR);
        x.call(charge, async |id: EffectId| bank.act("charge", id).await).await?;
        x.pure("receipt", async || Ok::<_, AppError>(())).await?;
        Ok(String::new())
    }
    let app = |h: &Hapax| Router::new().route("/act", h.operation("pay").post(pay));
    let broken = broken(&in_memory(app).await);
    for rule in [Rule::StepsSame, Rule::EffectsOnce] {
        assert!(broken.contains(&("receipt Before".to_owned(), rule)), "{broken:?}");
    }
}

#[tokio::test]
async fn a_step_that_is_named_by_chance_is_caught() {
    async fn pay(State(bank): State<Bank>, mut x: Execution) -> Result<String, AppError> {
        let mut random = [0; 4];
        getrandom::fill(&mut random).unwrap();
        let name = format!("charge-{}", u32::from_le_bytes(random));
        x.call(&*name, async |id: EffectId| bank.act("charge", id).await).await?;
        Ok(String::new())
    }
    let app = |h: &Hapax| Router::new().route("/act", h.operation("pay").post(pay));
    let broken = broken(&in_memory(app).await);
    assert!(broken.iter().any(|(_, rule)| *rule == Rule::Reached), "{broken:?}");
}

#[tokio::test]
async fn an_idempotent_step_that_is_none_is_caught() {
    async fn pay(State(bank): State<Bank>, mut x: Execution) -> Result<String, AppError> {
        x.idempotent("notify", async |_| bank.act_anew("notify").await).await?;
        Ok(String::new())
    }
    let app = |h: &Hapax| Router::new().route("/act", h.operation("pay").post(pay));
    let broken = broken(&in_memory(app).await);
    for place in ["notify After", "notify Error", "notify Panic", "settle Before"] {
        assert!(broken.contains(&(place.to_owned(), Rule::EffectsOnce)), "{place}: {broken:?}");
    }
}

#[tokio::test]
async fn a_provider_that_forgets_what_it_is_said_to_remember_is_caught() {
    async fn pay(State(bank): State<Bank>, mut x: Execution) -> Result<String, AppError> {
        let forgetful = async |id: EffectId| {
            let times = bank.effects().first().map_or(0, |(_, times)| *times);
            bank.act("charge", format!("{id} {times}")).await
        };
        x.call(Step::new("charge").resend_for(HOUR), forgetful).await?;
        Ok(String::new())
    }
    let app = |h: &Hapax| Router::new().route("/act", h.operation("pay").post(pay));
    let broken = broken(&in_memory(app).await);
    assert!(broken.contains(&("charge After".to_owned(), Rule::EffectsOnce)), "{broken:?}");
}

#[tokio::test]
async fn a_transactional_handler_that_writes_elsewhere_is_caught() {
    // Through the pool it waits for its own transaction.
    async fn beside(State(shop): State<Shop>, mut tx: Tx) -> Result<String, AppError> {
        insert(&mut tx, ORDER).await?;
        sqlx::query(PAID).execute(&shop.pool).await?;
        Ok(String::new())
    }
    let app = |h: &Hapax| Router::new().route("/act", h.operation("create").post(beside));
    let result = on_sqlite(app).await;
    assert!(broken(&result).contains(&("undisturbed".to_owned(), Rule::Undisturbed)));
    let text = result.unwrap_err().to_string();
    assert!(text.contains("the first answer was 500"), "{text}");
    assert!(text.contains("write through it alone?"), "{text}");
    println!("{text}");
    // Into another place it writes whatever becomes of the transaction.
    async fn outside(State(shop): State<Shop>, mut tx: Tx) -> Result<String, AppError> {
        insert(&mut tx, ORDER).await?;
        shop.bank.act_anew("charge").await?;
        Ok(String::new())
    }
    let app = |h: &Hapax| Router::new().route("/act", h.operation("create").post(outside));
    let broken = broken(&on_sqlite(app).await);
    for place in ["handler After", "handler Error", "commit Before"] {
        assert!(broken.contains(&(place.to_owned(), Rule::EffectsOnce)), "{place}: {broken:?}");
    }
}

#[tokio::test]
async fn a_handler_that_gives_its_transaction_away_is_caught() {
    async fn create(State(shop): State<Shop>, mut tx: Tx) -> Result<String, AppError> {
        tokio::spawn(async move {
            let _ = insert(&mut tx, ORDER).await;
            let _keeps_it_open = shop.pool.acquire().await;
            std::future::pending::<()>().await;
        });
        Ok(String::new())
    }
    let app = |h: &Hapax| Router::new().route("/act", h.operation("create").post(create));
    let result = on_sqlite(app).await;
    assert!(broken(&result).contains(&("undisturbed".to_owned(), Rule::Undisturbed)));
    let text = result.unwrap_err().to_string();
    assert!(text.contains("Does the handler give its Tx back"), "{text}");
}

#[tokio::test]
async fn worlds_that_share_their_effects_are_caught() {
    let bank = Bank::default();
    let result = Harness::new(request(), async || {
        let (h, bank) = (Hapax::in_memory(), bank.clone());
        let app = Router::new().route("/act", h.operation("pay").post(pay));
        World::new(&h, app.with_state(bank.clone()), async move || bank.effects())
    });
    assert!(broken(&result.run().await).contains(&("claim Before".to_owned(), Rule::Fresh)));
}

#[tokio::test]
async fn wrong_answers_and_intents_that_are_taken_for_the_same_are_caught() {
    let world = async || {
        let (h, bank) = (Hapax::in_memory(), Bank::default());
        let app = Router::new().route("/act", h.operation("pay").post(pay));
        World::new(&h, app.with_state(bank.clone()), async move || bank.effects())
    };
    let wrong = Harness::new(request(), world).right(|answer| answer.status() == 201);
    assert!(broken(&wrong.run().await).contains(&("undisturbed".to_owned(), Rule::AnswerRight)));
    let same = Harness::new(request(), world).changed(request());
    assert!(broken(&same.run().await).contains(&("undisturbed".to_owned(), Rule::IntentRefused)));
}
