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
    /// Several names, each behind its length in four bytes.
    Names(Box<[u8]>),
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

    /// The scope of several names in their order, such as a tenant and a user in it. However the
    /// same characters are divided, other names are another scope. One name is
    /// [`principal`](Self::principal).
    ///
    /// # Errors
    /// [`ScopeError`] when there is none, one is empty, or all together, with four bytes for each,
    /// are longer than 1,024 bytes.
    pub fn names(names: &[impl AsRef<[u8]>]) -> Result<Self, ScopeError> {
        if let [name] = names {
            return Self::principal(name.as_ref());
        }
        let mut all = Vec::new();
        for name in names.iter().map(AsRef::as_ref) {
            if name.is_empty() {
                return Err(ScopeError::Empty);
            }
            let length = u32::try_from(name.len()).map_err(|_| ScopeError::TooLong)?;
            all.extend_from_slice(&length.to_be_bytes());
            all.extend_from_slice(name);
        }
        match all.len() {
            0 => Err(ScopeError::Empty),
            length if length > MAX_PRINCIPAL => Err(ScopeError::TooLong),
            _ => Ok(Self(Repr::Names(all.into()))),
        }
    }

    /// The names it was made of; none for the single tenant. They are customer data: for those who
    /// decide by them, never for logs or metrics.
    pub fn to_names(&self) -> Vec<&[u8]> {
        match &self.0 {
            Repr::SingleTenant => Vec::new(),
            Repr::Principal(name) => vec![name],
            Repr::Names(all) => {
                let mut names = Vec::new();
                let mut rest = &**all;
                while let Some((length, behind)) = rest.split_first_chunk() {
                    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
                    let Some((name, next)) = behind.split_at_checked(length) else { break };
                    names.push(name);
                    rest = next;
                }
                names
            }
        }
    }

    /// What enters the record id: a tag, so that no principal can pass for the single tenant, nor
    /// for several names.
    pub(crate) fn parts(&self) -> (u8, &[u8]) {
        match &self.0 {
            Repr::SingleTenant => (0, &[]),
            Repr::Principal(name) => (1, name),
            Repr::Names(all) => (2, all),
        }
    }
}

impl fmt::Debug for Scope {
    // A principal is customer data: it does not reach logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Repr::SingleTenant => f.write_str("Scope(single tenant)"),
            Repr::Principal(_) | Repr::Names(_) => f.write_str("Scope(..)"),
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
    fn k2_several_names_are_one_scope_only_where_each_is_the_same() {
        let scope = |names: &[&str]| Scope::names(names).expect("valid");
        assert_eq!(scope(&["acme", "anna"]), scope(&["acme", "anna"]));
        assert_eq!(scope(&["acme"]), Scope::principal(b"acme").expect("valid"));
        let joined = scope(&["acme", "anna"]);
        for other in
            [&["acm", "eanna"][..], &["acmeanna"], &["anna", "acme"], &["acme", "anna", "x"]]
        {
            assert_ne!(joined.parts(), scope(other).parts(), "{other:?}");
        }
        // The bytes that several names come to are another scope where they are one name.
        let same_bytes = Scope::principal(joined.parts().1).expect("valid");
        assert_ne!(joined.parts(), same_bytes.parts());
        assert_eq!(joined.to_names(), [b"acme", b"anna"]);
        assert_eq!(Scope::single_tenant().to_names(), [b""; 0]);
    }

    #[test]
    fn names_are_neither_absent_nor_empty_nor_endless() {
        let long = "x".repeat(509);
        for (names, expected) in [
            (&[][..], ScopeError::Empty),
            (&["acme", ""], ScopeError::Empty),
            (&[""], ScopeError::Empty),
            (&[&*long, &*long], ScopeError::TooLong),
        ] {
            assert_eq!(Scope::names(names), Err(expected), "{}", names.len());
        }
    }

    #[test]
    fn a_principal_is_not_printed() {
        let scope = Scope::principal(b"acme-corp").expect("valid");
        assert!(!format!("{scope:?}").contains("acme"));
    }
}
