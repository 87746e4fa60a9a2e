//! hapax
