//! A harness for handlers: it repeats, fails and kills a handler at every point that it passes,
//! and checks that its effects are one. With the feature `testing`; for tests.
//!
//! ```
//! use std::{
//!     collections::BTreeSet,
//!     sync::{Arc, Mutex},
//! };
//!
//! use axum::{Router, extract::State, http::Request};
//! use hapax::{
//!     EffectId, Execution, Hapax, StepError,
//!     testing::{Harness, World},
//! };
//!
//! /// A carrier that sends one parcel for each identity that it is given.
//! type Carrier = Arc<Mutex<BTreeSet<String>>>;
//!
//! async fn ship(State(carrier): State<Carrier>, mut x: Execution) -> Result<(), StepError<()>> {
//!     let send = async |id: EffectId| {
//!         carrier.lock().map_err(drop)?.insert(id.to_string());
//!         Ok(())
//!     };
//!     x.call("parcel", send).await
//! }
//!
//! fn app(h: &Hapax, carrier: Carrier) -> Router {
//!     let ship = h.operation("shipments.create").post(ship);
//!     Router::new().route("/shipments", ship).with_state(carrier)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let request = Request::post("/shipments")
//!     .header("idempotency-key", "8e03978e-40d5-43dd-bc93-6894a57f9324")
//!     .body("")?;
//! let report = Harness::new(request, async || {
//!     let (h, carrier) = (Hapax::in_memory(), Carrier::default());
//!     let parcels = carrier.clone();
//!     World::new(&h, app(&h, carrier), async move || {
//!         vec![("parcel", parcels.lock().map_or(0, |sent| sent.len()))]
//!     })
//! })
//! .run()
//! .await?;
//! println!("{report}");
//! # Ok(())
//! # }
//! ```
//!
//! prints, since this call is not permitted to be resent,
//!
//! ```text
//!                before  begun  begun-lost  after  lost  error  stored  stored-lost  panic  hang …
//! claim          once                                           once    once                    …
//! parcel (call)  once    held   once        held   held  once   once    once         held   held …
//! settle         once                                           once    once                    …
//! ```
//!
//! # What it does
//!
//! Once the handler runs undisturbed; by that the harness learns the points that it passes. Then,
//! for each [point](Point) and each [fault](Fault) that makes sense there, it makes a new world,
//! sends the request, disturbs it there, lets its lease run out, and sends the request again until
//! its outcome is final or held. In each of these worlds
//!
//! - every effect happens at most once, and once if a success was answered;
//! - all final answers are the same bytes;
//! - another request under the same key is refused;
//! - an attempt that succeeds passes the same steps, under the same effect ids, as undisturbed;
//! - an outcome that is unknown is held where the operation and the step permit nothing else, and
//!   nowhere else.
//!
//! # What it cannot do
//!
//! The process that "dies" is this one: all attempts of the engine stop where they are and are
//! dropped, so their destructors run, and tasks that a handler has spawned live on. The engine and
//! the application's memory stay. What a power failure does to files, it does not show.

mod fault;
mod harness;
mod judge;
mod rehearsal;
mod report;
mod trial;

pub use crate::points::Kind;
pub use fault::{Fault, Point};
pub use harness::{Harness, World};
pub use report::{End, Report, Rule, Tried, Violation, Violations};

pub(crate) use rehearsal::{Passed, Rehearsal};
