//! What is stored holds no credential, whoever sent it.

use std::fs;

use hapax_testkit::{Issuer, Request, Serve, Upstream, UpstreamKind, fresh_key};

/// Fields by which a service gives its caller something to prove who it is with.
const GIVEN: [&str; 9] = [
    "set-cookie",
    "set-cookie2",
    "www-authenticate",
    "proxy-authenticate",
    "authorization",
    "authentication-info",
    "proxy-authentication-info",
    "x-auth-token",
    "x-csrf-token",
];

#[test]
fn t10_no_credential_of_either_side_is_anywhere_in_the_database() {
    let dir = tempfile::tempdir().expect("a directory");
    let upstream = Upstream::start(dir.path(), UpstreamKind::Plain);
    fs::write(dir.path().join("jwks.json"), Issuer::key_set(&[Issuer::First])).expect("written");
    let text = "store = \"sqlite:{dir}/hapax.db\"\n\
                scope = { jwt = { jwks_file = \"{dir}/jwks.json\" } }\n\
                [[service]]\nupstream = \"{upstream}\"\n\
                [[operation]]\nname = \"payments.create\"\nroutes = [\"POST /payments\"]\n\
                replay_headers = [\"x-payment-id\"]\n";
    let gateway = Serve::configured(dir.path(), &upstream, text).start();
    let token = Issuer::First.token("anna.lang@example.com");
    let signature = token.rsplit('.').next().unwrap_or_default().to_owned();
    let given = GIVEN.map(|field| format!("header {field}: given-{field}-4711; ")).concat();
    let request = |script: &str| {
        Request::payment(&fresh_key())
            .header("authorization", &format!("Bearer {token}"))
            .header("cookie", "session=sent-cookie-4711")
            .header("x-csrf-token", "sent-csrf-4711")
            .act(&format!("{given}header x-payment-id: kept-4711; {script}"))
    };
    let stored = request("effect; status 201; body text kept-body-4711");
    let first = gateway.send(&stored);
    first.assert_stored(201);
    for field in GIVEN {
        assert_eq!(first.all(field), [format!("given-{field}-4711")], "the first answer has it");
    }
    let replay = gateway.send(&stored);
    assert!(replay.is_replay() && replay.text() == "kept-body-4711", "{replay:?}");
    assert_eq!(replay.all("x-payment-id"), ["kept-4711"]);
    for field in GIVEN {
        assert_eq!(replay.all(field), [""; 0], "{field}");
    }
    // What is kept of an answer that settled nothing, of a refusal, and of nothing at all.
    gateway.send(&request("effect; status 500; body text kept-observed-4711"));
    gateway.send(&request("status 404; body text kept-failure-4711"));
    gateway.send(&request("effect; cut"));
    drop(gateway);

    let mut files = 0;
    let mut kept = 0;
    for file in fs::read_dir(dir.path()).expect("the directory") {
        let path = file.expect("a file").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.starts_with("hapax.db") {
            continue;
        }
        files += 1;
        let content = fs::read(&path).expect("readable");
        let holds = |text: &str| content.windows(text.len()).any(|part| part == text.as_bytes());
        let mut secrets = GIVEN.map(|field| format!("given-{field}-4711")).to_vec();
        let sent = ["sent-cookie-4711", "sent-csrf-4711", "anna.lang@example.com", &signature];
        secrets.extend(sent.map(str::to_owned));
        secrets.extend(token.split('.').map(str::to_owned));
        for secret in secrets {
            assert!(!holds(&secret), "{secret} is in {name}");
        }
        for field in GIVEN {
            assert!(!holds(field), "the field {field} is in {name}");
        }
        let shown = ["kept-body-4711", "kept-4711", "kept-observed-4711", "kept-failure-4711"];
        kept += shown.iter().filter(|text| holds(text)).count();
    }
    // The search would have found them: what is to be kept is there.
    assert!(files >= 2 && kept >= 4, "{files} files, {kept} texts");
}

#[test]
fn t10_no_operation_can_ask_for_credentials_to_be_replayed() {
    let dir = tempfile::tempdir().expect("a directory");
    let upstream = Upstream::start(dir.path(), UpstreamKind::Plain);
    for field in GIVEN {
        let text = format!(
            "[[operation]]\nname = \"pay\"\nroutes = [\"POST /pay\"]\nreplay_headers = [{field:?}]\n"
        );
        let ran = Serve::operations(dir.path(), &upstream, &text).run();
        assert_eq!(ran.code, Some(2), "{field}: {ran:#?}");
        assert!(ran.stderr.contains("is never replayed"), "{field}: {ran:#?}");
    }
}
