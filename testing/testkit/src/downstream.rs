//! Services by what they do with an identity, each with a policy that may be said of it.

use crate::UpstreamKind;

/// A service, and the operation in front of it.
#[derive(Clone, Copy, Debug)]
pub struct Downstream {
    /// Its name in results.
    pub name: &'static str,
    /// The service.
    pub kind: UpstreamKind,
    /// What the operation says about unknown outcomes.
    policy: &'static str,
    /// Whether an effect that exists, and whose answer was lost, is found out.
    pub finds: bool,
    /// Whether a retry goes on where there is no effect and its answer was lost.
    pub goes_on: bool,
}

const HOLD: &str = "on_unknown = \"hold\"";

const PROBE: &str = r#"on_unknown = "probe"
probe = { get = "/effects/{effect_id}", outcome = { status = 201, body = "/payment" } }"#;

const PROBE_AND_CLOSE: &str = r#"on_unknown = "probe"
timeout = "2s"
probe = { get = "/effects/{effect_id}", outcome = { status = 201, body = "/payment" }, closer = { post = "/close/{effect_id}?attempt={attempt}", closed = [404] } }"#;

const PROBE_AND_WAIT: &str = r#"on_unknown = "probe"
timeout = "2s"
probe = { get = "/effects/{effect_id}", outcome = { status = 201, body = "/payment" }, closer = { deadline = "1s" } }"#;

const PROBE_AND_RESEND: &str = r#"on_unknown = "probe"
collapse_for = "1h"
probe = { get = "/effects/{effect_id}", outcome = { status = 201, body = "/payment" } }"#;

const RESEND: &str = "on_unknown = \"resend\"\ncollapse_for = \"1h\"";

impl Downstream {
    /// Every kind of service with every policy that keeps its promise there.
    pub const ALL: [Self; 9] = [
        Self::new("plain-hold", UpstreamKind::Plain, HOLD, false, false),
        Self::new("asked-probe", UpstreamKind::Asked, PROBE, true, false),
        Self::new("closing-probe", UpstreamKind::Closing, PROBE_AND_CLOSE, true, true),
        Self::new("closing-deadline", UpstreamKind::Closing, PROBE_AND_WAIT, true, true),
        Self::new("refusing-probe", UpstreamKind::Refusing, PROBE, true, false),
        Self::new("unique-probe", UpstreamKind::Unique, PROBE, true, false),
        Self::new("unique-resend", UpstreamKind::Unique, RESEND, false, true),
        Self::new("collapsing-probe", UpstreamKind::Collapsing, PROBE_AND_RESEND, true, true),
        Self::new("collapsing-resend", UpstreamKind::Collapsing, RESEND, true, true),
    ];

    /// A service that acts on every request, and of which it is said that it collapses them: no
    /// promise can be kept there.
    pub const MISDECLARED: Self =
        Self::new("misdeclared", UpstreamKind::Plain, RESEND, false, true);

    /// A service of this kind with the default: what is unknown is held.
    pub const fn holding(kind: UpstreamKind) -> Self {
        Self::new(kind.word(), kind, HOLD, false, false)
    }

    const fn new(
        name: &'static str,
        kind: UpstreamKind,
        policy: &'static str,
        finds: bool,
        goes_on: bool,
    ) -> Self {
        Self { name, kind, policy, finds, goes_on }
    }

    /// The one of a name.
    #[track_caller]
    pub fn named(name: &str) -> Self {
        let named = Self::ALL.into_iter().find(|downstream| downstream.name == name);
        named.unwrap_or_else(|| panic!("no downstream {name}"))
    }

    /// Whether the policy permits that a request is sent again whose outcome is unknown.
    pub fn resends(&self) -> bool {
        self.policy.contains("collapse_for")
    }

    /// The operation of its payments, with a short lease.
    pub fn operation(&self) -> String {
        let policy = self.policy;
        format!(
            "[[operation]]\nname = \"payments.create\"\nroutes = [\"POST /payments\"]\n\
             lease = \"1s\"\nlate_arrival = \"1s\"\n{policy}\n"
        )
    }
}
