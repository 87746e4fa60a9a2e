//! One span for each attempt (OpenTelemetry, semantic conventions of HTTP clients).

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use tracing::{
    Id, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Record},
    subscriber::with_default,
};
use tracing_subscriber::{
    Layer, Registry,
    layer::{Context, SubscriberExt},
};

use crate::{
    client, created, done, quick,
    server::{Play, Server, answer},
};

type Fields = BTreeMap<String, String>;

#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<(u64, Fields)>>>);

struct Into<'a>(&'a mut Fields);

impl Visit for Into<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl<S: Subscriber> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if attributes.metadata().target().starts_with("hapax_client") {
            let mut fields = Fields::new();
            attributes.record(&mut Into(&mut fields));
            self.0.lock().unwrap().push((id.into_u64(), fields));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut spans = self.0.lock().unwrap();
        // An id is used again once its span has ended.
        if let Some((_, fields)) = spans.iter_mut().rev().find(|(of, _)| *of == id.into_u64()) {
            values.record(&mut Into(fields));
        }
    }
}

#[test]
fn each_attempt_is_a_span_that_says_how_often_it_was_sent_before() {
    let spans = Spans::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    with_default(Registry::default().with(spans.clone()), || {
        runtime.block_on(async {
            let busy = Play::Answer(answer(503, "", ""));
            let server = Server::playing([Play::Reset, busy, created()]).await;
            done(client(quick()).send(server.post().build().unwrap()).await.unwrap());
        });
    });
    let spans = spans.0.lock().unwrap();
    let field = |nth: usize, name: &str| spans[nth].1.get(name).map(String::as_str);
    assert_eq!(spans.len(), 3);
    for nth in 0..3 {
        assert_eq!(field(nth, "otel.kind"), Some("client"));
        assert_eq!(field(nth, "otel.name"), Some("POST"));
        assert_eq!(field(nth, "http.request.method"), Some("POST"));
        assert_eq!(field(nth, "server.address"), Some("127.0.0.1"));
        assert!(field(nth, "server.port").is_some());
    }
    assert_eq!(field(0, "http.request.resend_count"), None, "absent on the first");
    assert_eq!(field(1, "http.request.resend_count"), Some("1"));
    assert_eq!(field(2, "http.request.resend_count"), Some("2"));
    assert_eq!(field(0, "error.type"), Some("lost"));
    assert_eq!(field(1, "error.type"), Some("503"));
    assert_eq!(field(2, "error.type"), None);
    assert_eq!(field(2, "http.response.status_code"), Some("201"));
    assert!(!format!("{spans:?}").contains("/payments"), "no path, which may hold anything");
}
