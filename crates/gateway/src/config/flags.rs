//! What the command line says.

use std::path::PathBuf;

use hapax_core::{Key, Mode, OperationName, OperationPolicy};

use super::{
    At, Fault, MOST_WORKERS, Place, Report, RoutePattern, ScopeSource, StoreLocation, address,
    draft::{Draft, OperationDraft, ServiceDraft},
    duration, header, in_range, words,
};

/// What the command line says. Texts are as they were given: what is wrong with them is one
/// place's to say, whether they come from here or from a file.
///
/// They go before the file. Those from [`lease`](Self::lease) on are about the operation `default`
/// and are refused where a file defines operations of its own.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Flags {
    /// `--config`: the configuration file. Default: none.
    pub config: Option<PathBuf>,
    /// `--listen`: where callers connect. Default: `0.0.0.0:8080`.
    pub listen: Option<String>,
    /// `--operator-listen`: where health and metrics are. Default: `127.0.0.1:8081`.
    pub operator_listen: Option<String>,
    /// `--upstream`: the service behind, as `http://host:port`. Needed without a file; with one it
    /// replaces the upstream of its only service.
    pub upstream: Option<String>,
    /// `--store`: where records live. Default: `sqlite:hapax.db`.
    pub store: Option<String>,
    /// `--single-tenant`: all callers are one tenant.
    pub single_tenant: bool,
    /// `--scope-header`: the header that says who the caller is, set by a trusted proxy.
    pub scope_header: Option<String>,
    /// `--single-instance`: SQLite is accepted under an orchestrator.
    pub single_instance: bool,
    /// `--workers`: how many threads serve connections. Default: one fewer than there are processors,
    /// at least 1.
    pub workers: Option<usize>,
    /// `--lease`: how long an execution is presumed alive. Default: 30 s.
    pub lease: Option<String>,
    /// `--retain`: how long an outcome is replayed. Default: 24 h.
    pub retain: Option<String>,
    /// `--on-unknown`: `hold` or `resend`. Default: `hold`.
    pub on_unknown: Option<String>,
    /// `--collapse-for`: how long the upstream collapses on the effect id. Needed for `resend`.
    pub collapse_for: Option<String>,
    /// `--key-min-length`: the least number of characters of a key. Default: 16.
    pub key_min_length: Option<usize>,
    /// `--key-min-bits`: the least randomness of a key, in bits. Default: 64.
    pub key_min_bits: Option<u32>,
    /// `--observe`: report only, change nothing.
    pub observe: bool,
}

impl Flags {
    /// Puts the flags before what the draft says.
    pub(super) fn apply(&self, draft: &mut Draft, has_file: bool, report: &Report) {
        let keep = |flag, text: &Option<String>, parse: fn(&str) -> _| {
            text.as_deref().and_then(|text| report.keep(Place::Flag(flag), parse(text)))
        };
        draft.listen = keep("--listen", &self.listen, address::listen).or(draft.listen.take());
        draft.operator_listen = keep("--operator-listen", &self.operator_listen, address::listen)
            .or(draft.operator_listen.take());
        if let Some(store) = &self.store {
            draft.store = report.keep(Place::Flag("--store"), StoreLocation::parse(store));
        }
        draft.single_instance |= self.single_instance;
        if let Some(workers) = self.workers {
            let workers = in_range(workers, 1, MOST_WORKERS, "2");
            draft.workers = report.keep(Place::Flag("--workers"), workers).map(|at| at.value);
        }
        if let Some(scope) = self.scope(report) {
            draft.scope = Some(scope);
        }
        self.apply_upstream(draft, report);
        if draft.operations.is_empty() {
            draft.operations.extend(self.default_operation(has_file, report));
        } else {
            self.refuse_about_default(report);
        }
    }

    fn scope(&self, report: &Report) -> Option<Option<At<ScopeSource>>> {
        match (&self.scope_header, self.single_tenant) {
            (None, false) => None,
            (None, true) => {
                let place = Place::Flag("--single-tenant");
                Some(Some(At { place, value: ScopeSource::SingleTenant }))
            }
            (Some(name), false) => {
                let scope = header::scope(name).map(ScopeSource::Header);
                Some(report.keep(Place::Flag("--scope-header"), scope))
            }
            (Some(_), true) => {
                let what = "--single-tenant says that there is one scope only";
                let fault = Fault::new(what, "leave one of the two out");
                report.add(&Place::Flag("--scope-header"), fault);
                Some(None)
            }
        }
    }

    fn apply_upstream(&self, draft: &mut Draft, report: &Report) {
        const FLAG: Place = Place::Flag("--upstream");
        let Some(text) = &self.upstream else { return };
        let upstream = report.keep(FLAG, address::upstream(text));
        match &mut *draft.services {
            [] => {
                let prefix = Some(At { place: FLAG, value: String::new() });
                draft.services.push(ServiceDraft {
                    place: FLAG,
                    name: None,
                    upstream,
                    prefix,
                    host: None,
                    protocol: None,
                    tls: None,
                    authorize: None,
                });
            }
            [service] => service.upstream = upstream,
            services => {
                let what = format!("the file names {} services, and this is one", services.len());
                let help = "leave it out, or change the upstream in its [[service]]";
                report.add(&FLAG, Fault::new(what, help));
            }
        }
    }

    /// POST and PATCH with a key, wherever: one operation.
    fn default_operation(&self, has_file: bool, report: &Report) -> Option<OperationDraft> {
        let place = if has_file { Place::File } else { Place::Flag("--upstream") };
        let name = OperationName::new("default").ok()?;
        let mut draft = OperationDraft::new(place.clone(), OperationPolicy::new(name, ""));
        let routes = ["POST /*", "PATCH /*"].map(RoutePattern::parse).into_iter().flatten();
        draft.routes = routes.map(|value| At { place: place.clone(), value }).collect();
        let mistakes_before = report.count();
        let time = |flag, text: &Option<String>, example| {
            let text = text.as_deref()?;
            report.keep(Place::Flag(flag), duration::parse(text, example))
        };
        draft.set("lease", time("--lease", &self.lease, "30s"), |policy, value| {
            policy.lease = value;
        });
        draft.set("retention.outcome", time("--retain", &self.retain, "24h"), |policy, value| {
            policy.retention.outcome = value;
        });
        let collapse_for = time("--collapse-for", &self.collapse_for, "24h");
        draft.set("collapse_for", collapse_for, |policy, value| policy.collapse_for = Some(value));
        let on_unknown = self.on_unknown.as_deref().and_then(|text| {
            report.keep(Place::Flag("--on-unknown"), words::on_unknown_by_flag(text))
        });
        draft.set("on_unknown", on_unknown, |policy, value| policy.on_unknown = value);
        let min_length = self.key_min_length.and_then(|length| {
            let length = in_range(length, 1, Key::MAX_LENGTH, "16");
            report.keep(Place::Flag("--key-min-length"), length)
        });
        draft.set("key.min_length", min_length, |policy, value| {
            policy.key.policy.min_length = value;
        });
        let min_bits = self.key_min_bits.and_then(|bits| {
            let bits = in_range(bits, 0, super::MOST_KEY_BITS.into(), "64");
            report.keep(Place::Flag("--key-min-bits"), bits)
        });
        draft.set("key.min_bits", min_bits, |policy, value| policy.key.policy.min_bits = value);
        if self.observe {
            draft.policy.mode = Mode::Observe;
        }
        draft.of_each_service = true;
        draft.sound = report.count() == mistakes_before;
        Some(draft)
    }

    fn refuse_about_default(&self, report: &Report) {
        let given = [
            ("--lease", self.lease.is_some(), "lease = \"30s\""),
            ("--retain", self.retain.is_some(), "retention = { outcome = \"24h\" }"),
            ("--on-unknown", self.on_unknown.is_some(), "on_unknown = \"hold\""),
            ("--collapse-for", self.collapse_for.is_some(), "collapse_for = \"24h\""),
            ("--key-min-length", self.key_min_length.is_some(), "key = { min_length = 16 }"),
            ("--key-min-bits", self.key_min_bits.is_some(), "key = { min_bits = 64 }"),
            ("--observe", self.observe, "mode = \"observe\""),
        ];
        for (flag, _, setting) in given.into_iter().filter(|(_, given, _)| *given) {
            let what = "it is about the operation `default`, and the file defines operations";
            let help = format!("write it into the [[operation]] that is meant, as in {setting}");
            report.add(&Place::Flag(flag), Fault::new(what, help));
        }
    }
}
