//! `trusted_proxies` and `forwarded`: what is believed of proxies before us, and what services are
//! told.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{
    Fault,
    section::Value,
    suggest::{choice, shown},
};
use crate::forwarded::{Fields, TrustedProxies};

pub(super) fn read_trusted(value: Value<'_>) -> TrustedProxies {
    let networks = value.list("network", "10.0.0.0/8", network);
    TrustedProxies::new(networks.into_iter().map(|network| network.value))
}

pub(super) fn read_fields(value: Value<'_>) -> Option<Fields> {
    const WORDS: [(&str, Fields); 4] = [
        ("x-forwarded", Fields::XForwarded),
        ("forwarded", Fields::Forwarded),
        ("both", Fields::Both),
        ("off", Fields::Off),
    ];
    value.parse("a word", "x-forwarded", |text| choice(text, &WORDS)).map(|at| at.value)
}

fn network(text: &str) -> Result<IpNet, Fault> {
    const EXAMPLE: &str = "write an address or a network, such as \"10.0.0.0/8\" or \"fd00::/8\"";
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    let Ok(network) = text.parse::<IpNet>() else {
        return Err(Fault::new(format!("{} is not a network", shown(text)), EXAMPLE));
    };
    if network.trunc() != network {
        // Whoever wrote it meant one address, or another network.
        let what = format!("{} has bits behind its prefix", shown(text));
        let help = format!("write {:?}, or the one address", network.trunc().to_string());
        return Err(Fault::new(what, help));
    }
    Ok(network)
}
