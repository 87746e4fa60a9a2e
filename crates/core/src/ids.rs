//! The identities of a record: what is unique, what fences, what travels downstream.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use thiserror::Error;
use uuid::Uuid;

use crate::{Key, OperationName, Scope};

/// The unique identity of a record: a pure function of (scope, operation, key).
///
/// 6 bytes of locality, then 26 bytes of SHA-256 over the length-prefixed (version, scope,
/// operation, key). The locality prefix is the millisecond time inside a UUIDv7 or ULID key and
/// hash bits otherwise, so time-bearing keys land beside their contemporaries in the one index
/// that is in key order. The raw key is not stored.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
pub struct RecordId([u8; 32]);

impl Hash for RecordId {
    /// By 8 bytes of the digest: hashing more of it would tell no more apart.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [.., a, b, c, d, e, f, g, h] = self.0;
        state.write_u64(u64::from_ne_bytes([a, b, c, d, e, f, g, h]));
    }
}

impl RecordId {
    /// The version of the derivation: frozen, a new key format needs a new one (`protocol.md` 24).
    const VERSION: u8 = 1;

    /// The one constructor of a record's identity.
    pub fn new(scope: &Scope, operation: &OperationName, key: &Key) -> Self {
        let (tag, principal) = scope.parts();
        let mut hash = Sha256::new();
        hash.update(b"hapax record id\0");
        hash.update([Self::VERSION, tag]);
        for part in [principal, operation.as_str().as_bytes(), key.as_bytes()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest: [u8; 32] = hash.finalize().into();
        let mut id = digest;
        // The digest's first 6 bytes are the hash bits that a time-bearing key replaces.
        if let Some(millis) = embedded_millis(key.as_bytes()) {
            id[..6].copy_from_slice(&millis);
        }
        Self(id)
    }

    /// The stored bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// From stored bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordId({self})")
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every keyed request is logged under it, so it is spelled in one piece.
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = String::with_capacity(2 * self.0.len());
        for byte in self.0 {
            hex.push(char::from(DIGITS[usize::from(byte >> 4)]));
            hex.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        f.pad(&hex)
    }
}

/// The 48-bit millisecond time inside a UUIDv7 (RFC 9562 5.7) or ULID, as it is stored there.
fn embedded_millis(key: &[u8]) -> Option<[u8; 6]> {
    match key.len() {
        36 => {
            let uuid = Uuid::try_parse_ascii(key).ok()?;
            let time_bearing = uuid.get_version_num() == 7;
            time_bearing.then(|| uuid.as_bytes()[..6].try_into().ok()).flatten()
        }
        26 => ulid_millis(key),
        _ => None,
    }
}

fn ulid_millis(key: &[u8]) -> Option<[u8; 6]> {
    const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let digit = |c: &u8| ALPHABET.iter().position(|a| *a == c.to_ascii_uppercase());
    let digits = key.iter().map(digit).collect::<Option<Vec<_>>>()?;
    let millis = digits.iter().take(10).fold(0_u64, |n, d| (n << 5) | *d as u64);
    // The first of the ten characters may only carry three bits: 26 * 5 = 130, a ULID has 128.
    (millis >> 48 == 0).then(|| millis.to_be_bytes()[2..].try_into().ok()).flatten()
}

/// The fencing number of an execution: 1, 2, 3 … under an epoch, never reused, never going back.
///
/// Attempts compare as (epoch, number); on the wire (`Hapax-Attempt`) it is the one integer
/// `epoch * 2^32 + number` (`protocol.md` 2).
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Attempt(u64);

impl Attempt {
    /// The first attempt of a record made in `epoch`.
    pub const fn first(epoch: u32) -> Self {
        Self(((epoch as u64) << 32) | 1)
    }

    /// The attempt after this one, in `epoch`: older than nothing that this epoch makes.
    pub fn next(self, epoch: u32) -> Self {
        Self(self.0.saturating_add(1)).max(Self::first(epoch))
    }

    /// The number under the epoch, from 1.
    pub const fn number(self) -> u32 {
        (self.0 & 0xffff_ffff) as u32
    }

    /// The epoch it was made in.
    pub const fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The one integer of `Hapax-Attempt` and of the stored row.
    pub const fn to_wire(self) -> u64 {
        self.0
    }

    /// From the one integer.
    pub const fn from_wire(wire: u64) -> Self {
        Self(wire)
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attempt({self})")
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.epoch() {
            0 => write!(f, "{}", self.number()),
            epoch => write!(f, "{epoch}.{}", self.number()),
        }
    }
}

/// A random token of one ownership of a record; every write matches (id, attempt, owner).
///
/// (id, attempt) alone is no fence: after a lost claim answer another node's attempt 1 looks like
/// one's own (`protocol.md` 1).
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Owner([u8; 16]);

impl Owner {
    /// From 16 random bytes.
    pub const fn from_bytes(random: [u8; 16]) -> Self {
        Self(random)
    }

    /// The stored bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({:02x}{:02x}..)", self.0[0], self.0[1])
    }
}

/// The number of a claim: sequential in a store, never reused. Endings and bodies are ordered by it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ClaimNumber(pub i64);

/// SHA-256 of a policy's canonical text; records name the policy they were admitted under by it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PolicyDigest(pub [u8; 32]);

impl PolicyDigest {
    /// The digest of a canonical text.
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }
}

/// The identity that travels downstream: a UUIDv8 (RFC 9562 5.8) from
/// HMAC-SHA256(effect secret, record id ‖ step name).
///
/// Deterministic: the same after a takeover, a failover, a restore and on every node. A step has
/// an id of its own, since one id for two calls makes the provider refuse the second.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct EffectId(Uuid);

impl EffectId {
    /// The effect id of a step of a record; the gateway's only step has the empty name.
    pub fn new(secret: &EffectSecret, id: &RecordId, step: &str) -> Self {
        let mut bytes = [0; 16];
        let tag = secret.mac(&[id.as_bytes(), step.as_bytes()]);
        bytes.copy_from_slice(&tag[..16]);
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }

    /// Parses the textual form.
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self)
    }
}

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// The secret that effect ids are derived from; the same on every node, one per deployment.
///
/// Losing or changing it makes every downstream see a new operation, so the store keeps its
/// [fingerprint](Self::fingerprint) and a node whose secret differs refuses to start
/// (`protocol.md` 15).
#[derive(Clone, Eq, PartialEq)]
pub struct EffectSecret([u8; 32]);

impl EffectSecret {
    /// A secret from 32 random bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads the textual form: 64 hexadecimal digits, white space around them allowed.
    ///
    /// # Errors
    /// [`SecretError`] for anything else.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let digits = text.trim().as_bytes();
        if digits.len() != 64 {
            return Err(SecretError);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| SecretError)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| SecretError)?;
        }
        Ok(Self(bytes))
    }

    /// The textual form, for the file it is kept in.
    pub fn to_text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What identifies the secret without revealing it; kept in the store.
    pub fn fingerprint(&self) -> [u8; 16] {
        let mut short = [0; 16];
        short.copy_from_slice(&self.mac(&[b"hapax effect secret fingerprint"])[..16]);
        short
    }

    pub(crate) fn mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.macing(parts).finalize().into_bytes().into()
    }

    /// Whether `tag` is the beginning of the MAC; in a time that does not tell where it differs.
    pub(crate) fn verifies(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        self.macing(parts).verify_truncated_left(tag).is_ok()
    }

    fn macing(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        // A 32-byte key is one of the lengths HMAC takes as it is; every length is accepted.
        let mut mac = match Hmac::<Sha256>::new_from_slice(&self.0) {
            Ok(mac) => mac,
            Err(_) => unreachable!("HMAC takes keys of any length"),
        };
        parts.iter().for_each(|part| mac.update(part));
        mac
    }
}

impl fmt::Debug for EffectSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EffectSecret(..)")
    }
}

/// The text is not an effect secret.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("an effect secret is 64 hexadecimal digits; make one with `openssl rand -hex 32`")]
pub struct SecretError;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(scope: &Scope, operation: &str, key: &str) -> RecordId {
        let operation = OperationName::new(operation).expect("valid");
        RecordId::new(scope, &operation, &Key::from_bytes(key.as_bytes()).expect("valid"))
    }

    #[test]
    fn k2_scope_operation_and_key_each_separate_records() {
        let one = Scope::single_tenant();
        let acme = Scope::principal(b"acme").expect("valid");
        let base = id(&one, "pay", "k-1");
        assert_eq!(base, id(&one, "pay", "k-1"));
        assert_ne!(base, id(&acme, "pay", "k-1"));
        assert_ne!(base, id(&one, "refund", "k-1"));
        assert_ne!(base, id(&one, "pay", "K-1"), "keys are compared byte for byte");
    }

    #[test]
    fn parts_cannot_be_shifted_into_each_other() {
        let a = Scope::principal(b"ab").expect("valid");
        let b = Scope::principal(b"a").expect("valid");
        assert_ne!(id(&a, "c", "d"), id(&b, "bc", "d"));
        assert_ne!(id(&a, "c", "dd"), id(&a, "cd", "d"));
    }

    #[test]
    fn time_bearing_keys_land_beside_their_contemporaries() {
        let one = Scope::single_tenant();
        let v7 = id(&one, "pay", "018f3a5c-1b2d-7000-8000-000000000001");
        assert_eq!(v7.as_bytes()[..6], [0x01, 0x8f, 0x3a, 0x5c, 0x1b, 0x2d]);
        let ulid = id(&one, "pay", "01ARZ3NDEKTSV4RRFFQ69G5FAV");
        assert_eq!(
            u64::from_be_bytes([&[0, 0], &ulid.as_bytes()[..6]].concat().try_into().expect("8")),
            1_469_922_850_259
        );
        let v4 = id(&one, "pay", "8e03978e-40d5-43e8-bc93-6894a57f9324");
        assert_ne!(v4.as_bytes()[..6], [0x8e, 0x03, 0x97, 0x8e, 0x40, 0xd5]);
        // 'Z' needs five bits where a ULID has three: no ULID, no time.
        assert_eq!(embedded_millis(b"Z1ARZ3NDEKTSV4RRFFQ69G5FAV"), None);
    }

    #[test]
    fn attempts_rise_with_the_number_and_never_fall_behind_the_epoch() {
        let first = Attempt::first(0);
        assert_eq!((first.number(), first.to_wire()), (1, 1));
        assert_eq!(first.next(0).number(), 2);
        let raised = first.next(3);
        assert_eq!((raised.epoch(), raised.number()), (3, 1));
        assert!(raised > Attempt::from_wire(u64::from(u32::MAX)));
        assert!(raised.next(1) > raised, "an older epoch cannot lower it");
    }

    #[test]
    fn effect_ids_are_uuid_v8_and_differ_by_record_step_and_secret() {
        let one = Scope::single_tenant();
        let secret = EffectSecret::from_bytes([7; 32]);
        let record = id(&one, "pay", "k-1");
        let effect = EffectId::new(&secret, &record, "");
        assert_eq!(effect.0.get_version_num(), 8);
        assert_eq!(effect, EffectId::new(&secret, &record, ""));
        assert_ne!(effect, EffectId::new(&secret, &record, "refund"));
        assert_ne!(effect, EffectId::new(&secret, &id(&one, "pay", "k-2"), ""));
        assert_ne!(effect, EffectId::new(&EffectSecret::from_bytes([8; 32]), &record, ""));
        assert_eq!(EffectId::parse(&effect.to_string()), Some(effect));
    }

    #[test]
    fn a_secret_reads_back_and_is_not_printed() {
        let secret = EffectSecret::from_bytes([0xab; 32]);
        assert_eq!(EffectSecret::parse(&format!(" {}\n", secret.to_text())), Ok(secret.clone()));
        assert_eq!(EffectSecret::parse("abc"), Err(SecretError));
        assert_eq!(EffectSecret::parse(&"é".repeat(32)), Err(SecretError));
        assert!(!format!("{secret:?}").contains("ab"));
    }
}
