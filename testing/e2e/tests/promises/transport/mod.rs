//! Protocols: TLS, HTTP/2, hosts, tunnels, streams, proxies before us, and hostile messages.

mod hostile;
mod hosts;
mod http_2;
mod proxies;
mod streams;
mod tls;
mod tunnels;

use std::path::Path;

use hapax_testkit::{Authority, Gateway, Pair, Serve, Upstream, UpstreamKind};
use tempfile::TempDir;

/// A gateway with certificates at hand. Fields are dropped in order: the gateway first.
struct Secure {
    gateway: Gateway,
    upstream: Upstream,
    authority: Authority,
    pair: Pair,
    dir: TempDir,
}

/// What begins the configuration of a gateway that speaks TLS.
const TLS: &str = "scope = { single_tenant = true }\nstore = \"sqlite:{dir}/hapax.db\"\n\
    [tls]\ncertificate = \"{dir}/gateway.pem\"\nkey = \"{dir}/gateway.key\"\n";

impl Secure {
    /// With TLS for callers, and more of the `[tls]` table.
    #[track_caller]
    fn with(more: &str) -> Self {
        let service = "[[service]]\nupstream = \"{upstream}\"\n";
        Self::start(&format!("{TLS}{more}{service}"), |dir, _| {
            Upstream::start(dir, UpstreamKind::Plain)
        })
    }

    /// With this configuration, in front of this service.
    #[track_caller]
    fn start(text: &str, upstream: impl FnOnce(&Path, &Authority) -> Upstream) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let authority = Authority::new();
        authority.write(&dir.path().join("ca.pem"));
        let pair = authority.issue(dir.path(), "gateway", &["gateway.test", "127.0.0.1"]);
        let upstream = upstream(dir.path(), &authority);
        let gateway = Serve::configured(dir.path(), &upstream, text).start();
        Self { gateway, upstream, authority, pair, dir }
    }
}
