//! Whose key it is.

use std::fmt;

use thiserror::Error;

/// The principal (tenant, account) a key belongs to.
///
/// Two scopes never share a record: the scope is part of every [`RecordId`](crate::RecordId). It
/// comes from a verified identity, or the operator has said that there is one tenant only; there
/// is no empty scope to fall back on.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct Scope(Repr);

#[derive(Clone, Eq, Hash, PartialEq)]
enum Repr {
    SingleTenant,
    Principal(Box<[u8]>),
}

/// The longest principal accepted, in bytes.
const MAX_PRINCIPAL: usize = 1024;

impl Scope {
    /// The one scope of a deployment whose operator said that all callers are one tenant.
    pub const fn single_tenant() -> Self {
        Self(Repr::SingleTenant)
    }

    /// The scope of a principal: 1 to 1,024 bytes, compared byte for byte.
    ///
    /// # Errors
    /// [`ScopeError`] when it is empty or too long.
    pub fn principal(name: &[u8]) -> Result<Self, ScopeError> {
        if name.is_empty() {
            return Err(ScopeError::Empty);
        }
        if name.len() > MAX_PRINCIPAL {
            return Err(ScopeError::TooLong);
        }
        Ok(Self(Repr::Principal(name.into())))
    }

    /// What enters the record id: a tag, so that no principal can pass for the single tenant.
    pub(crate) fn parts(&self) -> (u8, &[u8]) {
        match &self.0 {
            Repr::SingleTenant => (0, &[]),
            Repr::Principal(name) => (1, name),
        }
    }
}

impl fmt::Debug for Scope {
    // A principal is customer data: it does not reach logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Repr::SingleTenant => f.write_str("Scope(single tenant)"),
            Repr::Principal(_) => f.write_str("Scope(..)"),
        }
    }
}

/// Why a scope was refused.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ScopeError {
    /// Nothing there.
    #[error("the scope is empty; every caller needs one")]
    Empty,
    /// Longer than 1,024 bytes.
    #[error("the scope is longer than 1024 bytes")]
    TooLong,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_principal_passes_for_the_single_tenant() {
        assert_eq!(Scope::principal(b""), Err(ScopeError::Empty));
        assert_eq!(Scope::principal(&[b'x'; 1025]), Err(ScopeError::TooLong));
        let named = Scope::principal(b"single tenant").expect("valid");
        assert_ne!(named.parts(), Scope::single_tenant().parts());
    }

    #[test]
    fn a_principal_is_not_printed() {
        let scope = Scope::principal(b"acme-corp").expect("valid");
        assert!(!format!("{scope:?}").contains("acme"));
    }
}
