//! The algorithms that fingerprints were and are made by.
//!
//! A record keeps the version of its fingerprint, and a retry is compared under that. So what an
//! algorithm makes of rules and request is frozen: a change of it is another algorithm, and the
//! ones before stay for as long as their records may be there.

use super::{BodyForm, BodyInvalid, Charset, IntentParts, MediaType, check_charset};
use crate::form::Marked;

/// An algorithm, by the number that stands in its versions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Algorithm {
    /// Compares coded bodies and `multipart/form-data` byte by byte, and JSON of any charset.
    First = 1,
    /// Compares what content codings hold, and multipart by its parts; JSON is UTF-8, and a `;` in a
    /// form may divide fields.
    Second = 2,
}

impl Algorithm {
    /// What new records get.
    pub(super) const LATEST: Self = Self::Second;

    pub(super) const fn of_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::First),
            2 => Some(Self::Second),
            _ => None,
        }
    }

    /// How a body is compared by rules that name `named`.
    pub(super) fn form(
        self,
        named: Option<BodyForm>,
        media_type: Option<&MediaType<'_>>,
    ) -> BodyForm {
        let form = named.unwrap_or_else(|| self.natural_form(media_type));
        match (self, form) {
            // Where its bytes are no ASCII, what separates its fields is not what it seems.
            (Self::Second, BodyForm::Form)
                if media_type.is_some_and(|it| it.charset() != Charset::Utf8) =>
            {
                BodyForm::Raw
            }
            _ => form,
        }
    }

    /// Whether a body of this media type can be read as what it is compared as.
    pub(super) fn check(
        self,
        form: BodyForm,
        media_type: Option<&MediaType<'_>>,
    ) -> Result<(), BodyInvalid> {
        match (self, form) {
            (Self::Second, BodyForm::Json | BodyForm::Jcs) => check_charset(media_type),
            _ => Ok(()),
        }
    }

    /// What of a form is told apart from its encoded self.
    pub(super) const fn marked(self) -> Marked {
        match self {
            Self::First => Marked::Percent,
            Self::Second => Marked::PercentAndSemicolon,
        }
    }

    /// The coding that is part of the intent, because the body is compared as it was sent.
    pub(super) fn coding(self, intent: &IntentParts<'_>) -> Option<Vec<u8>> {
        if self == Self::Second && intent.decoded.is_some() {
            return None;
        }
        let coding = intent.content_encoding?.trim_ascii().to_ascii_lowercase();
        (coding != b"identity").then_some(coding)
    }

    /// What is compared where no coding is part of the intent.
    pub(super) const fn content<'a>(self, intent: &IntentParts<'a>) -> &'a [u8] {
        match (self, intent.decoded) {
            (Self::Second, Some(decoded)) => decoded,
            _ => intent.body,
        }
    }

    /// Appends the media type of a body that is compared as `form`. What says nothing is left out:
    /// `charset=utf-8`, which is the charset of JSON and forms anyway, and the boundary of parts.
    /// Elsewhere servers have defaults of their own, and another charset gives the same bytes
    /// another meaning.
    pub(super) fn canonical_media_type(
        self,
        media_type: &MediaType<'_>,
        form: BodyForm,
        out: &mut Vec<u8>,
    ) {
        let natural = self.natural_form(Some(media_type));
        let always_utf8 = matches!(natural, BodyForm::Json | BodyForm::Form);
        media_type.canonical(out, |name, value| match name {
            b"charset" if always_utf8 => match self {
                Self::First => value.eq_ignore_ascii_case(b"utf-8"),
                Self::Second => Charset::named(value) == Charset::Utf8,
            },
            b"boundary" => form == BodyForm::Multipart,
            _ => false,
        });
    }

    fn natural_form(self, media_type: Option<&MediaType<'_>>) -> BodyForm {
        let natural = media_type.map_or(BodyForm::Raw, MediaType::natural_form);
        match (self, natural) {
            (Self::First, BodyForm::Multipart) => BodyForm::Raw,
            _ => natural,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fingerprint, FingerprintRules, FingerprintVersion};

    const PAYMENT: IntentParts<'_> = IntentParts {
        operation: "payments.create",
        method: "POST",
        path: "/v1/payments",
        query: None,
        content_encoding: None,
        media_type: Some(b"application/json"),
        headers: &[],
        body: br#"{"amount":1050,"currency":"EUR"}"#,
        decoded: None,
    };

    const MULTIPART: IntentParts<'_> = IntentParts {
        media_type: Some(b"multipart/form-data; boundary=b"),
        body: b"--b\r\n\r\nx\r\n--b--",
        ..PAYMENT
    };

    fn rules(text: &str) -> FingerprintRules {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn by(algorithm: Algorithm, rules: &str, intent: &IntentParts<'_>) -> Fingerprint {
        let rules: FingerprintRules = self::rules(rules);
        let mut version = rules.version().to_bytes();
        version[0] = algorithm as u8;
        let made = rules.prepare_for(FingerprintVersion::from_bytes(version)).expect("known");
        made.fingerprint(intent).expect("a valid body")
    }

    fn hex(fingerprint: Fingerprint) -> String {
        fingerprint.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Stored fingerprints outlive releases. Whoever changes one of these adds an algorithm and
    /// keeps the old one for the records made by it.
    #[test]
    fn the_fingerprints_of_each_algorithm_are_frozen() {
        const PARTS: &str =
            r#"{"include":["/amount","/x"],"exclude":["/amount/y"],"defaults":{"/x":1.5}}"#;
        let full =
            IntentParts { query: Some("a=%7e&b=+"), headers: &[("If-Match", b"\"1\"")], ..PAYMENT };
        let urlencoded = IntentParts {
            media_type: Some(b"application/x-www-form-urlencoded; v=1"),
            body: b"b=1&a=%25&c",
            ..PAYMENT
        };
        let divided = IntentParts { body: b"b=1;c=%3b&a=2", ..urlencoded };
        let latin = IntentParts {
            media_type: Some(b"application/x-www-form-urlencoded; charset=latin1"),
            body: b"b=1&a=%e9",
            ..PAYMENT
        };
        let latin_json =
            IntentParts { media_type: Some(b"application/json; charset=latin1"), ..PAYMENT };
        let coded = IntentParts { content_encoding: Some(b" GZip"), ..PAYMENT };
        let decoded = IntentParts { decoded: Some(b"{}"), ..coded };
        use Algorithm::{First, Second};
        for (algorithm, rules, intent, frozen) in [
            (
                First,
                "{}",
                &full,
                "019a17810a545cfaf527836f4894c8201a1d87cb1a75dbef\
                 d79e9744ae5fe3162b4c566166f94a49555febcc4e2399d9",
            ),
            (
                First,
                "{}",
                &urlencoded,
                "019a17810a545cfaf527836f4894c8208cbd76fd2cb1cc82\
                 debe6c7efd6e72128e4b6760c2c103dbea8d48a948fd9cd0",
            ),
            (
                First,
                "{}",
                &divided,
                "019a17810a545cfaf527836f4894c820183c7d3a957ccf16\
                 81b422590d7f5535e82ef9a8a267716529a331584713039a",
            ),
            (
                Second,
                "{}",
                &divided,
                "029a17810a545cfaf527836f4894c820ee960a417463dd61\
                 624ed432c7aef13d14425ae0aed78174d7d9c34029254b20",
            ),
            (
                First,
                PARTS,
                &PAYMENT,
                "01b6eedda45ff029e6c2351998f6ea14b442a7279a826e55\
                 3f6e5cc64b18ab712eb53675e917998393ab8bbd4885dacb",
            ),
            (
                First,
                r#"{"body":"none"}"#,
                &PAYMENT,
                "010a9dae857e9347664ffbafab6d525564940c7e8b312d65\
                 c8a5202998e91ef8d868c939736b3aadf9a71b624334d2ba",
            ),
            (
                First,
                "{}",
                &coded,
                "019a17810a545cfaf527836f4894c82015b262b15945aad4\
                 b5df633b3e3aa0239d66eb820957a9a6541d33216d717793",
            ),
            (
                First,
                "{}",
                &decoded,
                "019a17810a545cfaf527836f4894c82015b262b15945aad4\
                 b5df633b3e3aa0239d66eb820957a9a6541d33216d717793",
            ),
            (
                First,
                "{}",
                &MULTIPART,
                "019a17810a545cfaf527836f4894c8206a499b1275d6a46d\
                 9d76c2510260d70228b3c39d45fc9a65fc4913f6873dc10c",
            ),
            (
                First,
                "{}",
                &latin_json,
                "019a17810a545cfaf527836f4894c82055e44e04dc737404\
                 ae66901e802d44cd298331dcd5ff4847b34833932f19c6c8",
            ),
            (
                First,
                "{}",
                &latin,
                "019a17810a545cfaf527836f4894c820b6137bd822294ec1\
                 8d72493412faa4e6b7583b752c5075824b0c29365c316f70",
            ),
            (
                Second,
                "{}",
                &full,
                "029a17810a545cfaf527836f4894c820b55b5afc06a3e0f6\
                 ebfcbf0689a55dd5aa0521f7eb314e4b155f1a4b06d08fe4",
            ),
            (
                Second,
                "{}",
                &urlencoded,
                "029a17810a545cfaf527836f4894c820bec35e882ea7efa8\
                 f27f671f139cba59bed9675fc36987f31c0bc207f7f8c80c",
            ),
            (
                Second,
                PARTS,
                &PAYMENT,
                "02b6eedda45ff029e6c2351998f6ea14822f52df44f4de32\
                 9f73c8c3f7aa188d0682499fe1c537afecb82e52e226c410",
            ),
            (
                Second,
                r#"{"body":"none"}"#,
                &PAYMENT,
                "020a9dae857e9347664ffbafab6d5255fd99121816542c1a\
                 f3bca4aaa0671d446ac5039a7fde47438cf4b47f708c0911",
            ),
            (
                Second,
                "{}",
                &coded,
                "029a17810a545cfaf527836f4894c8204acb031bd61efef5\
                 38a72be5cf48108e215b7af4b0a56d70ff67b28267a0810a",
            ),
            (
                Second,
                "{}",
                &decoded,
                "029a17810a545cfaf527836f4894c820f0a6bb5bc44b7995\
                 c702c81a97054088c626f6097832c313bfdb8239d8f514e4",
            ),
            (
                Second,
                "{}",
                &MULTIPART,
                "029a17810a545cfaf527836f4894c8207b7eb610c986bb64\
                 8590623ade3b1b187f4a7a83eb84b7bd45e5a16493f14fa4",
            ),
            (
                Second,
                "{}",
                &latin,
                "029a17810a545cfaf527836f4894c8200da4631e2e9d5224\
                 e59511268b79c8b9187d6cb1bd390036c9c52c80d8af5b64",
            ),
            (
                Second,
                r#"{"body":"jcs","unordered":["/a"]}"#,
                &PAYMENT,
                "02048e31690d2b7d45ab942ebb1269f00a0cda0e4c93c743\
                 a7d937158ea401957962ecb18c815cccb967d732c750e174",
            ),
        ] {
            assert_eq!(hex(by(algorithm, rules, intent)), frozen, "{algorithm:?} {rules}");
        }
    }

    #[test]
    fn t12_a_version_is_known_by_its_algorithm_and_its_rules_and_by_nothing_less() {
        let rules = rules(r#"{"exclude":["/a"]}"#);
        let version = |algorithm: u8| {
            let mut bytes = rules.version().to_bytes();
            bytes[0] = algorithm;
            FingerprintVersion::from_bytes(bytes)
        };
        for known in [1, 2] {
            let made = rules.prepare_for(version(known)).expect("known");
            assert_eq!(made.version(), version(known));
        }
        assert_eq!(rules.prepare().version(), version(FingerprintVersion::ALGORITHM));
        for unknown in [0, 3, 255] {
            assert!(rules.prepare_for(version(unknown)).is_none(), "{unknown}");
        }
        let others = FingerprintRules::default();
        assert!(others.prepare_for(version(2)).is_none(), "made by other rules");
    }

    #[test]
    fn a_coding_that_is_removed_does_not_count_and_one_that_is_not_does() {
        let plain = by(Algorithm::Second, "{}", &PAYMENT);
        let removed = IntentParts {
            content_encoding: Some(b"gzip"),
            body: b"\x1f\x8b",
            decoded: Some(PAYMENT.body),
            ..PAYMENT
        };
        assert_eq!(by(Algorithm::Second, "{}", &removed), plain);
        let other = IntentParts { decoded: Some(b"{}"), ..removed };
        assert_ne!(by(Algorithm::Second, "{}", &other), plain);
        let kept = |coding: &'static [u8]| {
            let intent = IntentParts { content_encoding: Some(coding), ..PAYMENT };
            by(Algorithm::Second, "{}", &intent)
        };
        assert_eq!(kept(b"identity"), plain);
        assert_eq!(kept(b" Own "), kept(b"own"));
        assert_ne!(kept(b"own"), plain);
        assert_ne!(kept(b"own"), kept(b"other"));
    }

    #[test]
    fn the_boundary_counts_only_where_the_body_is_not_compared_by_its_parts() {
        let spelled = |boundary: &str, by_rules: &str| {
            let media_type = format!("multipart/form-data; boundary={boundary}");
            let body = format!("--{boundary}\r\n\r\nx\r\n--{boundary}--\r\n");
            let intent = IntentParts {
                media_type: Some(media_type.as_bytes()),
                body: body.as_bytes(),
                ..PAYMENT
            };
            by(Algorithm::Second, by_rules, &intent)
        };
        assert_eq!(spelled("a", "{}"), spelled("b", "{}"));
        let raw = r#"{"body":"raw"}"#;
        assert_ne!(spelled("a", raw), spelled("b", raw));
    }

    #[test]
    fn a_form_in_another_charset_is_compared_byte_by_byte() {
        let form = |media_type: &'static str, body: &'static [u8]| {
            let intent = IntentParts { media_type: Some(media_type.as_bytes()), body, ..PAYMENT };
            by(Algorithm::Second, "{}", &intent)
        };
        const FORM: &str = "application/x-www-form-urlencoded";
        const UTF8: &str = "application/x-www-form-urlencoded; charset=UTF-8";
        const LATIN: &str = "application/x-www-form-urlencoded; charset=iso-8859-1";
        assert_eq!(form(FORM, b"a=1&b=2"), form(UTF8, b"b=2&a=1"));
        assert_ne!(form(LATIN, b"a=1&b=2"), form(LATIN, b"b=2&a=1"));
        assert_ne!(form(LATIN, b"a=1"), form(FORM, b"a=1"));
    }
}
