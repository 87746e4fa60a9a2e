//! What is measured of the client: its cost, and what its budget spares a service.

#![forbid(unsafe_code)]

pub mod cost;
pub mod storm;
