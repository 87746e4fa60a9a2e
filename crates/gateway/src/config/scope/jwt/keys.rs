//! By which keys tokens are verified, and which algorithms are accepted.

use std::{fmt, path::PathBuf, time::Duration};

use jsonwebtoken::{Algorithm, AlgorithmFamily};

use crate::config::{
    At, Endpoint, Fault, SecretSource, address, section::Section, suggest::shown, tls,
};
use crate::tls::UpstreamTlsConfig;

/// Where the keys are that tokens are verified by.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum JwtKeySource {
    /// A secret shared with the issuer (HMAC).
    Secret(SecretSource),
    /// A JSON Web Key Set in this file, which is read again when it changes.
    File(PathBuf),
    /// A JSON Web Key Set behind a URL.
    Url {
        /// Where it is.
        url: Box<Endpoint>,
        /// How often it is fetched. Default: 5 min.
        refresh: Duration,
        /// How long the last keys are used while fetching fails. Default: 24 h.
        keep_stale: Duration,
    },
}

impl fmt::Display for JwtKeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(_) => f.write_str("a shared secret"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Url { url, .. } => write!(f, "{url}"),
        }
    }
}

/// Less than this is a load for the issuer and no gain: an unknown key is fetched at once.
const LEAST_REFRESH: Duration = Duration::from_secs(10);

pub(super) fn read(section: &mut Section<'_>) -> Option<JwtKeySource> {
    const REMEDY: &str = "write one of jwks_file = \"jwks.json\", jwks_url = \"https://…\" and \
                          secret = { file = \"/etc/hapax/jwt.key\" }";
    let file = section.take("jwks_file");
    let url = section.take("jwks_url");
    let secret = section.take("secret");
    let settings = read_url_settings(section, url.is_some());
    match (file, url, secret) {
        (Some(file), None, None) => Some(JwtKeySource::File(file.path("jwks.json")?.value)),
        (None, Some(url), None) => {
            let UrlSettings { refresh, keep_stale, allow_http, tls } = settings;
            let parse = |text: &str| address::key_set(text, allow_http);
            let url = url.parse("a URL", "https://issuer.example/jwks.json", parse)?;
            let url = Box::new(tls::with(section.report(), url, tls)?);
            Some(JwtKeySource::Url { url, refresh, keep_stale })
        }
        (None, None, Some(secret)) => {
            let secret = SecretSource::read(secret, "/etc/hapax/jwt.key", "JWT_SECRET")?;
            Some(JwtKeySource::Secret(secret))
        }
        (None, None, None) => {
            section.wrong("nothing says by which keys a token is verified", REMEDY);
            None
        }
        _ => {
            section.wrong("it names more than one place for the keys of tokens", REMEDY);
            None
        }
    }
}

/// What has a meaning only where the keys are behind a URL.
struct UrlSettings {
    refresh: Duration,
    keep_stale: Duration,
    allow_http: bool,
    tls: Option<At<UpstreamTlsConfig>>,
}

fn read_url_settings(section: &mut Section<'_>, has_url: bool) -> UrlSettings {
    let mut settings = UrlSettings {
        refresh: Duration::from_secs(300),
        keep_stale: Duration::from_secs(86_400),
        allow_http: false,
        tls: None,
    };
    let refresh = section.take("refresh");
    let keep_stale = section.take("keep_stale");
    let allow_http = section.take("allow_http");
    let tls = section.take("tls");
    if !has_url {
        for value in [refresh, keep_stale, allow_http, tls].into_iter().flatten() {
            let what = "it has a meaning only where the keys are behind a jwks_url";
            value.wrong(Fault::new(what, "remove it"));
        }
        return settings;
    }
    if let Some(refresh) = refresh {
        let (place, report) = (refresh.place().clone(), refresh.report());
        settings.refresh = refresh.duration("5m").map_or(settings.refresh, |at| at.value);
        if settings.refresh < LEAST_REFRESH {
            let what = "the keys would be fetched again and again";
            let help = "write at least \"10s\", such as \"5m\"; an unknown key is fetched at once";
            report.add(&place, Fault::new(what, help));
        }
    }
    if let Some(keep_stale) = keep_stale {
        let (place, report) = (keep_stale.place().clone(), keep_stale.report());
        settings.keep_stale = keep_stale.duration("24h").map_or(settings.keep_stale, |at| at.value);
        if settings.keep_stale < settings.refresh {
            let what = "the keys would be given up before they are fetched again";
            let help = "make it at least as long as refresh, such as \"24h\"";
            report.add(&place, Fault::new(what, help));
        }
    }
    if let Some(allow_http) = allow_http {
        settings.allow_http = allow_http.boolean().is_some_and(|allow| allow.value);
    }
    settings.tls = tls.and_then(tls::read_upstream);
    settings
}

/// All that are verified by a public key.
const PUBLIC: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

pub(super) fn read_algorithms(
    section: &mut Section<'_>,
    keys: Option<&JwtKeySource>,
) -> Vec<Algorithm> {
    let by_secret = matches!(keys, Some(JwtKeySource::Secret(_)));
    let example = if by_secret { "HS256" } else { "RS256" };
    let default = || if by_secret { vec![Algorithm::HS256] } else { PUBLIC.to_vec() };
    let Some(given) = section.take("algorithms") else { return default() };
    let place = given.place().clone();
    let before = section.report().count();
    let parse = |text: &str| {
        let algorithm = text.parse::<Algorithm>().map_err(|_| {
            let help = "write HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, \
                        ES256, ES384 or EdDSA";
            Fault::new(format!("{} is no algorithm that is verified", shown(text)), help)
        })?;
        let is_hmac = algorithm.family() == AlgorithmFamily::Hmac;
        match keys {
            // Whoever has the public key could make tokens that a HMAC with it takes for right.
            Some(_) if is_hmac && !by_secret => Err(Fault::new(
                format!("{text} is verified by a shared secret, and public keys are no secret"),
                "remove it; with a shared secret write secret = { file = … }, and no key set",
            )),
            Some(_) if !is_hmac && by_secret => Err(Fault::new(
                format!("{text} is verified by a public key, and a secret is none"),
                "remove it; with public keys write jwks_file or jwks_url, and no secret",
            )),
            _ => Ok(algorithm),
        }
    };
    let algorithms: Vec<_> =
        given.list("algorithm", example, parse).into_iter().map(|at| at.value).collect();
    if algorithms.is_empty() && section.report().count() == before {
        let help = format!("write those of your issuer, as in [{example:?}]");
        section.report().add(&place, Fault::new("without an algorithm no token is right", help));
    }
    algorithms
}
