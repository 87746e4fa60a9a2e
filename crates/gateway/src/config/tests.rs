use super::*;

#[test]
fn dump() {
    let top = [
        "lisen = \"x\"",
        "listen = 8080",
        "listen = \"localhost:80\"",
        "store = \"postgres://u:hunter2@h/d\"",
        "store = {env=\"X\"}",
        "effect_secret = \"hunter2\"",
        "effect_secret = {}",
        "effect_secret = {file=\"a\", env=\"b\"}",
        "effect_secret={file=3}",
        "effect_secret={env=\"\"}",
        "effect_secret={path=\"x\"}",
        "[operator]\nlisten=\"0.0.0.0:8080\"",
        "operator = 3",
        "[operator]\nlistn=\"0.0.0.0:8080\"",
        "cors = {}",
        "[limits]\nrequest_body = \"2MB\"\nbody_within=10\nconnect=\"0s\"\nmax_connections=0\nbuffered_total=\"1KiB\"\ndrian=\"1s\"",
        "group_commit = 5000",
        "sweep = -1",
        "single_instance = 1",
        "x = ",
        "lease = \"30s\"",
        "listen = \"0.0.0.0:1\"\nlisten = \"0.0.0.0:2\"",
        "a = \"hunter2\nb = 1\nc = 2 3",
        "[[service]]\nupstream=\"http://b\"",
        "[[service]]\nprefix=\"v1\"\nupstream=\"https://u:p@b\"",
        "[[service]]\nprefix=\"/a\"\nhost=\"x\"",
        "service2 = 1",
        "group_commit = 99999999999999999999999999999999999999999999999",
    ];
    for t in top {
        let tail = if t.starts_with('[') { ("", t) } else { (t, "") };
        let text = format!(
            "{}\nscope = {{ single_tenant = true }}\n[[service]]\nupstream = \"http://a\"\n{}",
            tail.0, tail.1
        );
        println!(
            "--- {t}\n{}",
            match Config::from_text(
                Path::new("f.toml"),
                &text,
                &Flags::default(),
                Environment::default()
            ) {
                Ok(_) => "OK".to_owned(),
                Err(e) => e.to_string(),
            }
        );
    }
    let ops = [
        "kind=\"keyd\"",
        "kind=\"natural\"\nreason=\"x\"\nlease=\"3s\"",
        "kind=\"unprotected\"",
        "reason=\"x\"",
        "key={from=\"body:/x\"}",
        "key={from=\"header:authorization\"}",
        "key={from=\"x\"}",
        "key={min_length=0,min_bits=9999,syntax=\"stict\",required=1,reqired=true}",
        "fingerprint={body=\"jsn\"}",
        "fingerprint={body=\"multipart\"}",
        "fingerprint={body=\"form\",exclude=[\"/a\"]}",
        "fingerprint={exclude=[\"a\", 3, \"/~\"]}",
        "fingerprint={include=\"/a\"}",
        "fingerprint={defaults={\"/a\"=1979-05-27, b=1}}",
        "fingerprint={headers=[\"cookie\",\"a b\"]}",
        "fingerprint={exclude=[\"/a\",\"/a/b\"]}",
        "in_flight=\"accept\"",
        "in_flight=\"wait\"",
        "in_flight={}",
        "in_flight={wait=\"0s\"}",
        "in_flight={wiat=\"1s\"}",
        "in_flight=3",
        "on_unknown=\"probe\"",
        "on_unknown=\"resend\"",
        "on_unknown=\"resend\"\ncollapse_for=\"80s\"",
        "collapse_for=\"40d\"",
        "lease=\"30\"",
        "lease=30",
        "lease=\"500ms\"",
        "lease=\"0s\"",
        "timeout=\"0s\"",
        "retention={outcome=\"40d\"}",
        "retention={tombstone=\"1h\"}",
        "retention=\"1d\"",
        "retried_by={relay=\"31d\"}",
        "retried_by={relay=3}",
        "admission=\"separate\"",
        "store_down=\"pass\"\nprobe={get=\"/x\"}\nreference=\"/id\"",
        "store_refusals=\"yes\"",
        "response_cap=\"1GiB\"",
        "response_cap=-1",
        "replay_headers=[\"set-cookie\"]",
        "mode=\"observ\"",
        "contract={effect=1}",
        "contrat={}",
        "retension={}",
    ];
    for t in ops {
        let text = format!(
            "scope = {{ single_tenant = true }}\n[[service]]\nupstream = \"http://a\"\n[[operation]]\nname=\"pay\"\nroutes=[\"POST /pay\"]\n{}",
            t
        );
        println!(
            "--- {t}\n{}",
            match Config::from_text(
                Path::new("f.toml"),
                &text,
                &Flags::default(),
                Environment::default()
            ) {
                Ok(_) => "OK".to_owned(),
                Err(e) => e.to_string(),
            }
        );
    }
    for r in [
        "POST",
        "psot /a",
        "post /a",
        "Post /a",
        "CONNECT /a",
        "copy /a",
        "COPY /a",
        "POST a",
        "POST /a?b",
        "POST http://a/b",
        "POST /a*",
        "POST /*/a",
        "POST /:id",
        "POST /{id",
        "POST /{}",
        "POST /{a}b",
        "POST /{a}/{a}",
        "POST /é",
        "POST /%4",
        "POST  /a",
    ] {
        println!(
            "--- {r}: {}",
            match RoutePattern::parse(r) {
                Ok(r) => format!("OK {r}"),
                Err(e) => e.to_string(),
            }
        );
    }
}
