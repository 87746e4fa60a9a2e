//! The in-memory store keeps every rule of the record protocol.

use std::sync::Arc;

use hapax_core::RecordId;
use hapax_store::{
    ManualClock, MemorySnapshot, MemoryStore, Store,
    conformance::{Harness, Unsupported},
};

struct Memory {
    clock: Arc<ManualClock>,
    node: MemoryStore,
    kept: Option<MemorySnapshot>,
}

impl Memory {
    fn fresh() -> Self {
        let clock = Arc::new(ManualClock::new());
        Self { node: MemoryStore::new(clock.clone()), clock, kept: None }
    }
}

impl Harness for Memory {
    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn node(&self) -> Arc<dyn Store> {
        Arc::new(self.node.clone())
    }

    async fn second_node(&mut self) -> Arc<dyn Store> {
        Arc::new(self.node.node())
    }

    async fn reopen(&mut self) -> Arc<dyn Store> {
        self.node = self.node.node();
        self.node()
    }

    async fn keep_moment(&mut self) -> Result<(), Unsupported> {
        self.kept = Some(self.node.snapshot());
        Ok(())
    }

    async fn go_back(&mut self) -> Result<(), Unsupported> {
        self.node.restore(self.kept.take().ok_or(Unsupported)?);
        Ok(())
    }

    async fn change_incarnation(&mut self) -> Result<(), Unsupported> {
        self.node.change_incarnation();
        Ok(())
    }

    async fn lose_next_answer(&mut self, committed: bool) -> Result<(), Unsupported> {
        self.node.lose_next_answer(committed);
        Ok(())
    }

    async fn erase_lease(&mut self, id: RecordId) -> Result<(), Unsupported> {
        self.node.erase_lease(id);
        Ok(())
    }
}

hapax_store::conformance_tests!(Memory::fresh());
