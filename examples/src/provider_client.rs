//! A client of the payment provider, as small as can be.

use std::{net::SocketAddr, time::Duration};

use axum::http::{Request, StatusCode, header};
use bytes::Bytes;
use hapax::{
    Called, EffectId,
    http::body::{BufferBudget, ReadLimits, read_bounded},
};
use http_body_util::Full;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};

use crate::Failed;

/// The provider.
#[derive(Clone, Debug)]
pub struct Provider {
    address: SocketAddr,
    patience: Duration,
    budget: BufferBudget,
}

/// Why there is no charge, or no word of it.
#[derive(Debug, Eq, PartialEq)]
pub enum ChargeFailed {
    /// The provider refused it, for good.
    Declined,
    /// Nothing was sent.
    Unreachable,
    /// It may have been made.
    Unknown,
}

/// What hapax has to know of an error: does it prove that nothing was charged?
impl From<ChargeFailed> for Called<String, ChargeFailed> {
    fn from(failed: ChargeFailed) -> Self {
        match failed {
            ChargeFailed::Declined | ChargeFailed::Unreachable => Self::NotApplied(failed),
            ChargeFailed::Unknown => Self::Unknown(failed),
        }
    }
}

impl Provider {
    /// The provider at an address, which is waited for no longer than `patience`.
    pub fn new(address: SocketAddr, patience: Duration) -> Self {
        Self { address, patience, budget: BufferBudget::new(1 << 20) }
    }

    /// Charges an order under an identity.
    pub async fn charge(
        &self,
        id: &EffectId,
        order: i64,
        amount: u32,
    ) -> Called<String, ChargeFailed> {
        let stream = match timeout(self.patience, TcpStream::connect(self.address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(_)) | Err(_) => return ChargeFailed::Unreachable.into(),
        };
        // From here on something may have been sent, and only an answer tells.
        match timeout(self.patience, self.ask(stream, id, order, amount)).await {
            Ok(Ok((StatusCode::CREATED, body))) => match body["charge"].as_str() {
                Some(charge) => Called::Applied(charge.to_owned()),
                None => ChargeFailed::Unknown.into(),
            },
            Ok(Ok((StatusCode::PAYMENT_REQUIRED, _))) => ChargeFailed::Declined.into(),
            // Any other answer, none in time, or one that broke off.
            Ok(_) | Err(_) => ChargeFailed::Unknown.into(),
        }
    }

    async fn ask(
        &self,
        stream: TcpStream,
        id: &EffectId,
        order: i64,
        amount: u32,
    ) -> Result<(StatusCode, Value), Failed> {
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let charge = json!({ "order": order, "amount": amount });
        let request = Request::post("/charges")
            .header(header::HOST, self.address.to_string())
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", format!("\"{id}\""))
            .body(Full::new(Bytes::from(charge.to_string())))?;
        let (head, body) = sender.send_request(request).await?.into_parts();
        let limits = ReadLimits::default();
        let body = read_bounded(body, limits, &self.budget).await.map_err(|_| "no whole answer")?;
        Ok((head.status, serde_json::from_slice(body.bytes()).unwrap_or_default()))
    }
}
