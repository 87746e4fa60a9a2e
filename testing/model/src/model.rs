//! The model: a setup, and a mutation or none.

use std::{sync::Arc, time::Duration};

use hapax_core::{
    DecisionRules, EffectId, EffectSecret, Fingerprint, FingerprintVersion, OnUnknown,
    OperationName, PolicyDigest, Record, RecordId, Retention, Statement,
};
use hapax_store::{MemoryAnchor, MemoryData, SecretPin};
use stateright::Property;

use crate::{
    Mutation, Promise, Setup,
    action::Action,
    service::{Service, View},
    setup::ServiceKind,
    tampered::Tampered,
    turn::Turn,
    world::{NODES, Node, Phase, Reads, Told, World},
};

/// The protocol in one setup.
#[derive(Clone)]
pub struct Model {
    pub(crate) setup: Setup,
    pub(crate) mutation: Option<Mutation>,
    /// What is watched, where not everything that the setup promises is.
    pub(crate) only: Option<[Promise; 1]>,
    pub(crate) tampered: Tampered,
    pub(crate) id: RecordId,
    pub(crate) operation: OperationName,
    pub(crate) digest: PolicyDigest,
    pub(crate) policy_text: String,
    pub(crate) rules: DecisionRules,
    pub(crate) timeout: Duration,
    pub(crate) retention: Retention,
    pub(crate) fingerprints: [Fingerprint; 2],
    pub(crate) secrets: [EffectSecret; 2],
    pub(crate) statement: Statement,
}

impl Model {
    /// The product as it is.
    ///
    /// # Errors
    /// What the product's own check says of the setup's policy.
    pub fn new(setup: Setup) -> Result<Self, String> {
        Self::with(setup, None, None)
    }

    /// The product as it is, and one promise watched, whether the setup makes it or not.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn watching(setup: Setup, only: Promise) -> Result<Self, String> {
        Self::with(setup, None, Some([only]))
    }

    /// With a condition dropped, and one promise watched.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn mutated(setup: Setup, mutation: Mutation, only: Promise) -> Result<Self, String> {
        Self::with(setup, Some(mutation), Some([only]))
    }

    fn with(
        setup: Setup,
        mutation: Option<Mutation>,
        only: Option<[Promise; 1]>,
    ) -> Result<Self, String> {
        let policy = setup.policy().ok_or("no name")?;
        if let Some(wrong) = policy.check().first() {
            return Err(wrong.to_string());
        }
        let pinned = policy.pinned();
        let version = FingerprintVersion::from_bytes([1; 16]);
        let secrets = [EffectSecret::from_bytes([1; 32]), EffectSecret::from_bytes([2; 32])];
        let id = RecordId::from_bytes([7; 32]);
        let [first, second] = secrets.each_ref().map(|secret| EffectId::new(secret, &id, ""));
        if first == second {
            return Err("two secrets make one effect id".to_owned());
        }
        Ok(Self {
            setup,
            mutation,
            only,
            tampered: Tampered(mutation),
            id,
            operation: policy.name.clone(),
            digest: pinned.digest(),
            policy_text: pinned.text(),
            rules: DecisionRules::stricter(&pinned, &pinned),
            timeout: policy.timeout,
            retention: setup.retention(),
            fingerprints: [1, 2].map(|intent| Fingerprint::new(version, [intent; 32])),
            secrets,
            statement: Statement { actor: "model".to_owned(), reason: "asked".to_owned() },
        })
    }

    pub(crate) fn promises(&self) -> &[Promise] {
        self.only.as_ref().map_or(self.setup.promises, |only| only)
    }

    pub(crate) fn intent_of(&self, record: &Record) -> u8 {
        u8::from(record.fingerprint == self.fingerprints[1])
    }

    fn begin(&self) -> World {
        let mut store = MemoryData::default();
        store.remember_policy(self.digest, self.operation.clone(), self.policy_text.clone());
        let nodes = std::array::from_fn::<_, NODES, _>(|nth| {
            let secret = usize::from(self.setup.other_secret && nth == 1);
            let pinned = store.pin_secret(1, self.secrets[secret].fingerprint());
            let up = pinned == SecretPin::Same || self.mutation == Some(Mutation::AnySecretStarts);
            let anchor = MemoryAnchor::join(&mut store, nth as u64);
            Node { anchor, starts: 0, secret, up, phase: Phase::Idle }
        });
        World {
            store: Arc::new(store),
            backup: None,
            now: 0,
            nodes,
            service: Service::default(),
            packets: Vec::new(),
            left: self.setup.budget,
            told: Told::default(),
            broken: None,
            reads: Reads {
                admissions: self.setup.service == ServiceKind::Collapses,
                endings: self.setup.outcome > 0,
                passed: self.setup.service == ServiceKind::KeepsDeadline,
                watches: self.setup.on_unknown == OnUnknown::Probe,
                marks: self.setup.budget.restores > 0,
            },
        }
    }

    /// The world after a step, and the step in words.
    pub(crate) fn tell(&self, world: &World, action: Action) -> (World, String) {
        let mut turn = Turn::new(self, world, true);
        turn.take(action);
        turn.end()
    }
}

/// What is to be seen somewhere, so that keeping promises says something.
pub struct Reached;

impl Reached {
    /// A caller is told a success.
    pub const SUCCESS: &str = "a success is told";
    /// A caller is told a terminal failure.
    pub const FAILURE: &str = "a terminal failure is told";
    /// A caller is told a success, and the record has had a second attempt.
    pub const LATER: &str = "a success is told after a second attempt";
}

impl stateright::Model for Model {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.begin()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        View { model: self, world }.possible(actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut turn = Turn::new(self, world, false);
        turn.take(action);
        Some(turn.end().0)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        macro_rules! promises {
            ($($promise:ident),*) => {
                vec![$(Property::always(Promise::$promise.words(), |_: &Self, world: &World| {
                    world.broken != Some(Promise::$promise)
                })),*]
            };
        }
        let mut properties = promises![
            OneEffect,
            AnswersAgree,
            OwnOutcome,
            SuccessHasEffect,
            FailureHasNone,
            ReusedIsTrue,
            AdmittedByPermission,
            PresentIsNotOld,
            ToldStaysKnown
        ];
        // A model in which nothing happens would keep every promise.
        properties.extend([
            Property::sometimes(Reached::SUCCESS, |_: &Self, world: &World| {
                world.told.success.is_some()
            }),
            Property::sometimes(Reached::FAILURE, |_: &Self, world: &World| {
                world.told.failed.contains(&true)
            }),
            Property::sometimes(Reached::LATER, |_: &Self, world: &World| {
                let later = |record: &Record| record.attempt.number() > 1;
                world.record().is_some_and(later) && world.told.success.is_some()
            }),
        ]);
        properties
    }
}
