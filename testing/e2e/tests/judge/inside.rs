//! Gateways and a service on the library within the process of the test, on stores of its choice.

use std::{net::SocketAddr, sync::Arc, sync::LazyLock};

use axum::{Json, extract::State as Injected, http::StatusCode, response::IntoResponse};
use hapax::{
    Attempt, BackgroundOptions, Called, EffectId, EffectSecret, Execution, Hapax, Interrupted,
    Options, Secrets, StepError,
};
use hapax_core::PinnedPolicy;
use hapax_gateway::{
    Gateway,
    config::{Config, Environment, Flags},
    server::{Inbound, ServerLimits, serve},
};
use hapax_store::{Inspect, ListFilter, Policies};
use hapax_testkit::{
    Request, Scene,
    history::{Entry, Recorded},
    start,
};
use http::HeaderMap;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
};
use tokio_util::sync::CancellationToken;

use crate::broken::Broken;

pub(crate) static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().enable_all().build().expect("a runtime"));

/// The steps of [`service`].
pub(crate) const STEPS: [&str; 2] = ["charge", "ship"];

fn secret() -> EffectSecret {
    EffectSecret::from_bytes([7; 32])
}

async fn engine(store: &Broken) -> Hapax {
    let secrets = Secrets::single(secret());
    secrets.pin(&store.store).await.expect("the first secret");
    let options = Options { single_tenant: true, ..Options::default() };
    let hapax = Hapax::new(Arc::new(store.clone()), secrets, options);
    hapax.start_background(BackgroundOptions::default());
    hapax
}

/// A gateway in front of the scene's service, configured as its processes are. What comes in goes
/// through the door first.
pub(crate) fn gateway(scene: &Scene, store: &Broken, door: fn(&mut HeaderMap)) -> SocketAddr {
    let file = Some(scene.dir().join("hapax.toml"));
    let flags = Flags { config: file, ..Flags::default() };
    RUNTIME.block_on(async {
        let config = Config::load(&flags, Environment::of_process()).expect("a configuration");
        let gateway = Gateway::new(config, engine(store).await).await.expect("a gateway");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let answer = move |mut request: http::Request<Inbound>| {
            door(request.headers_mut());
            let gateway = gateway.clone();
            async move { gateway.answer(request).await }
        };
        tokio::spawn(serve(listener, answer, ServerLimits::default(), CancellationToken::new()));
        address
    })
}

/// A service on the library that charges and ships at the scene's service; with one effect id for
/// both, if it is told so.
pub(crate) fn service(scene: &Scene, store: &Broken, one_id: bool) -> SocketAddr {
    let shop = Shop { ledger: address_of(&scene.upstream.url()), one_id };
    RUNTIME.block_on(async {
        let orders = engine(store).await.operation("payments.create").post(order);
        let app = axum::Router::new().route("/payments", orders).with_state(shop);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, app).await });
        address
    })
}

#[derive(Clone, Copy)]
struct Shop {
    ledger: SocketAddr,
    one_id: bool,
}

async fn order(
    Injected(shop): Injected<Shop>,
    mut x: Execution,
    attempt: Attempt,
    Json(order): Json<Value>,
) -> Result<Json<Value>, Failed> {
    let [charge, ship] = STEPS;
    let charged_as = attempt.effect_id_of(charge);
    let charged = x.call(charge, async |id| shop.tell(id, &attempt, charge, &order).await).await?;
    x.call(ship, async |id| {
        let id = if shop.one_id { charged_as } else { id };
        shop.tell(id, &attempt, ship, &order).await
    })
    .await?;
    Ok(Json(charged))
}

impl Shop {
    async fn tell(
        self,
        id: EffectId,
        attempt: &Attempt,
        step: &str,
        order: &Value,
    ) -> Called<Value, StatusCode> {
        let content = json!({ "intent": order["intent"], "step": step }).to_string();
        let request = Request::payment(&id.to_string())
            .json(&content)
            .header("hapax-attempt", &attempt.number().to_wire().to_string());
        match start(self.ledger, &request).over().await {
            Ok(answer) if answer.status == 201 => {
                Called::Applied(serde_json::from_slice(&answer.body).expect("JSON"))
            }
            _ => Called::Unknown(StatusCode::BAD_GATEWAY),
        }
    }
}

struct Failed(Result<StatusCode, Interrupted>);

impl From<StepError<StatusCode>> for Failed {
    fn from(error: StepError<StatusCode>) -> Self {
        Self(match error {
            StepError::Failed(status) => Ok(status),
            StepError::Interrupted(why) => Err(why),
        })
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> axum::response::Response {
        match self.0 {
            Ok(status) => status.into_response(),
            Err(why) => why.into_response(),
        }
    }
}

/// The records as the store has them, one for each of these steps; `""` is the only one of a
/// gateway's.
pub(crate) fn records(store: &Broken, steps: &[&str]) -> Vec<Recorded> {
    RUNTIME.block_on(async {
        let filter = ListFilter { limit: 1000, ..ListFilter::default() };
        let mut records = Vec::new();
        for listed in store.store.list(filter).await.expect("a list") {
            let record = listed.record;
            let text = store.store.policy(record.policy).await.expect("a reading");
            let pinned = text.as_deref().and_then(PinnedPolicy::parse).expect("a policy");
            let history = store.store.history(record.claim).await.expect("a history");
            records.extend(steps.iter().map(|step| {
                Recorded {
                    effect_id: EffectId::new(&secret(), &record.id, step).to_string(),
                    state: format!("{:?}", listed.state).to_lowercase(),
                    on_unknown: pinned.on_unknown.to_string(),
                    entries: history
                        .iter()
                        .map(|entry| Entry {
                            attempt: entry.attempt.to_wire(),
                            what: entry.what.clone(),
                        })
                        .collect(),
                }
            }));
        }
        records
    })
}

fn address_of(url: &str) -> SocketAddr {
    url.trim_start_matches("http://").parse().expect("an address")
}
