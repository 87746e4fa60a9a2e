//! The proxies that are believed.

use std::{net::IpAddr, sync::Arc};

use ipnet::IpNet;

/// Networks of proxies that are believed to say where a request comes from. Cheap to clone.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl TrustedProxies {
    /// These networks.
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self(networks.into_iter().collect())
    }

    /// Whether an address is in one of them. An IPv4 address that is written as IPv6 is the same.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}
