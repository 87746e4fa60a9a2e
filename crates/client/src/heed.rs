//! For services: to leave retries to whoever is above.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::{HeaderValue, Request};
use tower_layer::Layer;
use tower_service::Service;

/// A layer for a service: where a request says that its sender sends it again (`Hapax-Retries: above`),
/// the clients that the service uses for it do not. hapax's own layer of an operation does the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeedLayer;

/// A service that leaves retries to whoever is above.
#[derive(Clone, Copy, Debug)]
pub struct Heed<S>(S);

impl<S> Layer<S> for HeedLayer {
    type Service = Heed<S>;

    fn layer(&self, service: S) -> Heed<S> {
        Heed(service)
    }
}

impl<S, B> Service<Request<B>> for Heed<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let lines = request.headers().get_all(hapax_above::FIELD);
        let retried = hapax_above::says(lines.iter().map(HeaderValue::as_bytes));
        Box::pin(hapax_above::when(retried, self.0.call(request)))
    }
}
