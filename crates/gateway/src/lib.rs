//! The gateway of hapax: correct `Idempotency-Key` behaviour in front of any HTTP service.
//!
//! [`Gateway`] answers requests by a [`config::Config`]: keyed operations go through the engine
//! ([`hapax::Hapax`], by way of [`hapax::http`]), everything else streams through. [`server::serve`] listens, [`upstream`]
//! talks to the service and knows exactly what was never sent, [`Operator`] answers operators.
#![forbid(unsafe_code)]

mod answer_body;
mod authorize;
pub mod body;
mod causes;
pub mod config;
mod correlation;
mod cors;
mod forgotten;
pub mod forwarded;
mod gateway;
pub mod headers;
mod keyed;
pub mod metric_definitions;
mod observe;
mod operator;
mod outage;
mod passthrough;
mod preference;
mod presenting;
mod probe;
mod replay_room;
pub mod scope;
pub mod server;
mod shared;
mod sockets;
mod spool;
mod through;
pub mod tls;
mod tunnel;
mod unprotected;
mod unsuited;
pub mod upstream;
mod well_known;
mod workers;

pub use answer_body::AnswerBody;
pub use gateway::{Gateway, ReloadError};
pub use operator::Operator;
pub use outage::OutageError;
pub use probe::AuthorizationError;
pub use shared::GatewayError;
pub use workers::Workers;
