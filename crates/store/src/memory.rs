//! A store in memory.
/// placeholder
#[derive(Debug)]
pub struct MemoryStore;
