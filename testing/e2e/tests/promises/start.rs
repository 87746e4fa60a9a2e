//! Starts that must fail: one clear message that names the remedy, exit code 2. And one that works.

use std::{fs, net::TcpListener, path::Path};

use hapax_testkit::{
    ONE_SERVICE, Ran, Request, Serve, Stage, Upstream, UpstreamKind, eventually, fresh_key, hapax,
};
use tempfile::TempDir;

use crate::SOON;

/// A directory with a service, and a start that would succeed.
struct Scene {
    dir: TempDir,
    upstream: Upstream,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let upstream = Upstream::start(dir.path(), UpstreamKind::Plain);
        Self { dir, upstream }
    }

    fn serve(&self) -> Serve {
        Serve::new(self.dir.path(), &self.upstream)
    }

    /// A start with this file, whose text follows what every file needs.
    fn configured(&self, text: &str) -> Serve {
        Serve::operations(self.dir.path(), &self.upstream, text)
    }

    fn database(&self) -> std::path::PathBuf {
        self.dir.path().join("hapax.db")
    }

    /// Makes a database, as a gateway that ran before.
    fn make_database(&self) {
        let gateway = self.serve().start();
        gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
    }
}

/// One clear message, with every one of these words; exit code 2; nothing was served.
#[track_caller]
fn assert_refused(serve: &Serve, words: &[&str]) {
    let ran = serve.run();
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    assert!(!ran.stdout.contains("listening on"), "{ran:#?}");
    for word in words {
        assert!(ran.stderr.contains(word), "{word:?} is not named: {ran:#?}");
    }
    for noise in ["panicked", "RUST_BACKTRACE", "Os {", "Err(", "Error {"] {
        assert!(!ran.stderr.contains(noise), "{noise}: {ran:#?}");
    }
    let messages = ran.stderr.lines().filter(|line| line.starts_with("hapax: ")).count();
    let usage = ran.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    assert_eq!(messages + usage, 1, "one message: {ran:#?}");
}

#[test]
fn without_a_scope_it_does_not_start() {
    let scene = Scene::new();
    let none = scene.serve().without("--single-tenant", 0);
    assert_refused(&none, &["scope", "--single-tenant", "--scope-header"]);
    let both = scene.serve().args(["--scope-header", "X-Account"]);
    assert_refused(&both, &["--scope-header", "--single-tenant", "leave one"]);
    let no_header = none.args(["--scope-header", "X Account"]);
    assert_refused(&no_header, &["--scope-header"]);
    let text = ONE_SERVICE.replace("scope = { single_tenant = true }\n", "");
    let in_file = Serve::configured(scene.dir.path(), &scene.upstream, &text);
    assert_refused(&in_file, &["hapax.toml", "scope", "single_tenant"]);
    let later = text + "scope = { jwt = { claim = \"sub\" } }";
    let later = Serve::configured(scene.dir.path(), &scene.upstream, &later);
    assert_eq!(later.run().code, Some(2));
}

#[test]
fn an_unknown_configuration_key_is_named_with_its_line_and_the_likely_one() {
    let scene = Scene::new();
    let operation = "[[operation]]\nname = \"payments.create\"\nroutes = [\"POST /payments\"]\n";
    let typo = scene.configured(&format!("{operation}on_unkown = \"hold\"\n"));
    assert_refused(&typo, &["hapax.toml:9", "on_unkown", "on_unknown"]);
    let nested = scene.configured(&format!("{operation}key = {{ requierd = true }}\n"));
    assert_refused(&nested, &["hapax.toml:9", "requierd", "required"]);
    let table = scene.configured(&format!("{operation}[operators]\nlisten = \"127.0.0.1:1\"\n"));
    assert_refused(&table, &["hapax.toml:9", "operators"]);
    let root = Serve::configured(
        scene.dir.path(),
        &scene.upstream,
        &format!("lisen = \"127.0.0.1:0\"\n{ONE_SERVICE}"),
    );
    assert_refused(&root, &["hapax.toml:1", "lisen", "listen"]);
}

#[test]
fn what_belongs_to_later_versions_is_refused_and_not_ignored() {
    let scene = Scene::new();
    let operation = "[[operation]]\nname = \"payments.create\"\nroutes = [\"POST /payments\"]\n";
    let serve = scene.configured(&format!("{operation}reference = \"/id\"\n"));
    assert_refused(&serve, &["hapax.toml:9", "reference"]);
    assert_refused(&scene.serve().args(["--on-unknown", "probe"]), &["--on-unknown", "--config"]);
    for table in ["relay", "console", "outbox"] {
        assert_refused(&scene.configured(&format!("[{table}]\n")), &["hapax.toml:6", table]);
    }
}

#[test]
fn a_wrong_duration_is_named_with_a_right_one() {
    let scene = Scene::new();
    for (flag, value) in [
        ("--lease", "soon"),
        ("--lease", "30"),
        ("--lease", "0s"),
        ("--lease", "1ms"),
        ("--retain", "1 fortnight"),
        ("--retain", "0s"),
        ("--retain", ""),
        ("--collapse-for", "1y6w of sundays"),
    ] {
        assert_refused(&scene.serve().args([flag, value]), &[flag, "help: write", "\""]);
    }
    // A negative one looks like a flag.
    assert_refused(&scene.serve().args(["--retain=-1h"]), &["--retain"]);
    let operation = "[[operation]]\nname = \"payments.create\"\nroutes = [\"POST /payments\"]\n";
    for setting in
        ["lease = \"30\"", "lease = 30", "timeout = \"never\"", "retention = { outcome = \"1dd\" }"]
    {
        let (key, _) = setting.split_once(' ').expect("a key");
        assert_refused(
            &scene.configured(&format!("{operation}{setting}\n")),
            &["hapax.toml:9", key],
        );
    }
}

#[test]
fn combinations_that_cannot_hold_are_refused() {
    let scene = Scene::new();
    let serve = || scene.serve();
    assert_refused(&serve().args(["--on-unknown", "resend"]), &["--collapse-for", "hold"]);
    let short = serve().args(["--on-unknown", "resend", "--collapse-for", "30s"]);
    assert_refused(&short, &["--collapse-for", "late_arrival"]);
    assert_refused(&serve().args(["--retain", "40d"]), &["--retain", "30d"]);
    assert_refused(
        &serve().args(["--on-unknown", "sometimes"]),
        &["--on-unknown", "hold", "resend"],
    );
    assert_refused(&serve().args(["--key-min-length", "300"]), &["--key-min-length", "255"]);
    let operation = "[[operation]]\nname = \"payments.create\"\nroutes = [\"POST /payments\"]\n";
    for (setting, word) in [
        ("retried_by = { client = \"24h\", operator = \"31d\" }", "operator"),
        ("retention = { outcome = \"2d\", tombstone = \"1d\" }", "retention"),
        ("replay_headers = [\"set-cookie\"]", "set-cookie"),
        ("kind = \"unprotected\"", "reason"),
    ] {
        assert_refused(
            &scene.configured(&format!("{operation}{setting}\n")),
            &["hapax.toml:9", word],
        );
    }
    let flag = scene.configured(operation).args(["--lease", "10s"]);
    assert_refused(&flag, &["--lease", "[[operation]]"]);
    let twice = scene.configured(&format!("{operation}{operation}"));
    assert_refused(&twice, &["payments.create", "hapax.toml:9"]);
}

#[test]
fn an_upstream_that_is_not_one_is_refused() {
    let scene = Scene::new();
    let with = |url: &str| scene.serve().without("--upstream", 1).args(["--upstream", url]);
    assert_refused(&scene.serve().without("--upstream", 1), &["--upstream", "http://"]);
    assert_refused(&with("localhost:3000"), &["--upstream", "http://"]);
    assert_refused(&with("ftp://127.0.0.1"), &["--upstream", "https://"]);
    assert_refused(&with("http://127.0.0.1:3000/v1"), &["--upstream", "path"]);
    let secret = with("http://admin:hunter2@127.0.0.1:3000").run();
    assert_eq!(secret.code, Some(2), "{secret:?}");
    assert!(!secret.stderr.contains("hunter2"), "{secret:?}");
}

#[test]
fn a_store_that_cannot_be_used_is_refused() {
    let scene = Scene::new();
    let dir = scene.dir.path();
    let at = |path: &Path| scene.serve().store(path);
    assert_refused(&at(&dir.join("nowhere/hapax.db")), &["nowhere"]);
    assert_refused(&at(dir), &[&dir.display().to_string()]);
    let text = dir.join("text.db");
    fs::write(&text, "this is no database, and long enough to be taken for one".repeat(100))
        .unwrap();
    assert_refused(&at(&text), &["text.db"]);
    let foreign = dir.join("foreign.db");
    rusqlite::Connection::open(&foreign).unwrap().execute("CREATE TABLE users (name)", ()).unwrap();
    assert_refused(&at(&foreign), &["foreign.db"]);
    assert_refused(&at(Path::new(":memory:")), &["memory"]);
    let store = |url: &str| scene.serve().without("--store", 1).args(["--store", url]);
    assert_refused(&store("postgres://localhost/hapax"), &["--store", "sqlite:"]);
    assert_refused(&store("hapax.db"), &["--store", "sqlite:"]);
    assert_refused(&store("sqlite:"), &["--store"]);
}

#[test]
fn a_damaged_database_is_refused() {
    let scene = Scene::new();
    scene.make_database();
    let path = scene.database();
    rusqlite::Connection::open(&path)
        .unwrap()
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))
        .unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let length = bytes.len();
    bytes[4096..length.min(40_000)].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    assert_refused(&scene.serve(), &["hapax.db"]);
}

#[test]
fn a_database_of_a_newer_hapax_is_refused() {
    let scene = Scene::new();
    scene.make_database();
    rusqlite::Connection::open(scene.database())
        .unwrap()
        .execute(
            "INSERT INTO _hapax_migrations (version, name, checksum, applied) \
             VALUES (99, 'later', x'00', 0)",
            (),
        )
        .unwrap();
    assert_refused(&scene.serve(), &["hapax.db", "newer", "99"]);
    // Nothing of it was touched.
    let records =
        hapax(["records", "list", "--store", &format!("sqlite:{}", scene.database().display())]);
    assert_ne!(records.code, Some(0), "{records:?}");
}

#[test]
fn a_database_that_another_process_keeps_locked_is_refused_within_a_bound() {
    let scene = Scene::new();
    scene.make_database();
    let lock = rusqlite::Connection::open(scene.database()).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = std::time::Instant::now();
    assert_refused(&scene.serve(), &["hapax.db"]);
    assert!(begun.elapsed() < std::time::Duration::from_secs(15), "{:?}", begun.elapsed());
    lock.execute_batch("ROLLBACK").unwrap();
    drop(lock);
    scene.serve().start().send(&Request::payment(&fresh_key())).assert_stored(201);
}

#[test]
fn p54_replicas_on_sqlite_are_refused_unless_there_is_one() {
    let scene = Scene::new();
    let replica = scene.serve().env("KUBERNETES_SERVICE_HOST", "10.0.0.1");
    assert_refused(&replica, &["SQLite", "--single-instance"]);
    let single = replica.args(["--single-instance"]).start();
    single.send(&Request::payment(&fresh_key())).assert_stored(201);
}

#[test]
fn p53_without_its_effect_secret_a_used_database_is_refused() {
    let scene = Scene::new();
    scene.make_database();
    let key = scene.dir.path().join("hapax.db.effect-key");
    let text = fs::read_to_string(&key).expect("it was made beside the database");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&key).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "for its owner only");

    fs::remove_file(&key).unwrap();
    assert_refused(&scene.serve(), &["hapax.db.effect-key", "missing", "restore"]);
    assert!(!key.exists(), "no other is made in its place");

    fs::write(&key, "00".repeat(32) + "\n").unwrap();
    assert_refused(&scene.serve(), &["effect secret"]);
    fs::write(&key, "no secret\n").unwrap();
    assert_refused(&scene.serve(), &["hapax.db.effect-key"]);
    fs::write(&key, "").unwrap();
    assert_refused(&scene.serve(), &["hapax.db.effect-key"]);

    fs::write(&key, text).unwrap();
    scene.serve().start();
}

#[test]
fn the_effect_secret_can_be_given_and_makes_the_same_effect_ids_on_another_database() {
    let scene = Scene::new();
    fs::write(scene.dir.path().join("secret"), "5f".repeat(32)).unwrap();
    let payment = Request::payment(&fresh_key());
    for database in ["one.db", "two.db"] {
        let text = format!("effect_secret = {{ file = \"{{dir}}/secret\" }}\n{ONE_SERVICE}")
            .replace("hapax.db", database);
        let gateway = Serve::configured(scene.dir.path(), &scene.upstream, &text).start();
        gateway.send(&payment).assert_stored(201);
        assert!(!scene.dir.path().join(format!("{database}.effect-key")).exists());
    }
    let arrivals = scene.upstream.arrivals();
    assert_eq!(arrivals[0].effect_id(), arrivals[1].effect_id());
    let by_env = format!("effect_secret = {{ env = \"EFFECT_SECRET\" }}\n{ONE_SERVICE}")
        .replace("hapax.db", "one.db");
    let by_env = Serve::configured(scene.dir.path(), &scene.upstream, &by_env);
    assert_refused(&by_env, &["EFFECT_SECRET"]);
    let gateway = by_env.env("EFFECT_SECRET", &"5f".repeat(32)).start();
    assert!(gateway.send(&payment).is_replay());
}

#[test]
fn an_address_that_is_taken_or_none_is_refused() {
    let scene = Scene::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--listen", "--operator-listen"] {
        let with = |value: &str| scene.serve().without(flag, 1).args([flag, value]);
        assert_refused(&with(&address), &[flag, &address]);
        assert_refused(&with("localhost"), &[flag]);
        assert_refused(&with(":8080"), &[flag, "0.0.0.0:8080"]);
    }
}

#[test]
fn a_file_that_is_not_there_or_no_toml_is_refused() {
    let scene = Scene::new();
    let missing = Serve::bare(scene.dir.path()).args(["--config", "nowhere.toml"]);
    assert_refused(&missing, &["nowhere.toml", "--config"]);
    assert_refused(&scene.configured("[[operation]\nname = 1\n"), &["hapax.toml:6"]);
}

#[test]
fn all_mistakes_of_a_file_are_named_at_once() {
    let scene = Scene::new();
    let serve = scene.configured(
        "[[operation]]\nname = \"a\"\nroutes = [\"POST /a\"]\nlease = \"soon\"\non_unknown = \"probe\"\n",
    );
    assert_refused(&serve, &["hapax.toml:9", "hapax.toml:10", "lease", "on_unknown"]);
}

#[test]
fn wrong_usage_is_exit_code_2_too() {
    for args in
        [&["serve", "--no-such-flag"][..], &["serve", "--key-min-length", "many"], &["surve"]]
    {
        let ran: Ran = hapax(args);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("error: "), "{ran:?}");
    }
}

#[test]
fn k1_each_operation_is_printed_with_its_policy_before_it_is_ready() {
    let stage = Stage::operations(
        UpstreamKind::Collapsing,
        r#"
        [[operation]]
        name = "payments.create"
        routes = ["POST /payments"]
        [[operation]]
        name = "refunds.create"
        routes = ["POST /refunds"]
        on_unknown = "resend"
        collapse_for = "7d"
        [[operation]]
        name = "search"
        kind = "unprotected"
        routes = ["POST /search"]
        reason = "only reads"
        [[operation]]
        name = "profile.put"
        kind = "natural"
        routes = ["PUT /profile"]
        "#,
    );
    let lines = stage.gateway.stdout();
    let ready = lines.iter().position(|line| line.starts_with("listening on ")).unwrap();
    for words in [
        ["payments.create", "hold", "enforce"],
        ["refunds.create", "resend", "7d"],
        ["search", "unprotected", "only reads"],
        ["profile.put", "natural", "PUT"],
    ] {
        let has = |line: &&String| words.iter().all(|word| line.contains(word));
        assert_eq!(lines[..ready].iter().filter(has).count(), 1, "{words:?}: {lines:#?}");
    }
    // Unprotected and natural ones pass.
    let key = fresh_key();
    for request in [Request::post("/search", "{}"), Request::post("/profile", "{}").method("PUT")] {
        for _ in 0..2 {
            assert_eq!(stage.gateway.send(&request.clone().key(&key)).status, 201);
        }
    }
    stage.upstream.assert_arrivals(4);
}

#[test]
fn several_that_start_at_once_on_a_new_database_agree() {
    let scene = Scene::new();
    let serve = scene.serve();
    let gateways: Vec<_> = std::thread::scope(|scope| {
        let starting: Vec<_> = (0..4).map(|_| scope.spawn(|| serve.start())).collect();
        starting.into_iter().map(|gateway| gateway.join().expect("it starts")).collect()
    });
    let payment = Request::payment(&fresh_key()).act("sleep 50");
    let all: Vec<_> = gateways.iter().collect();
    hapax_testkit::copies(8, &all, &payment);
    scene.upstream.assert_arrivals(1);
    // One secret: what one of them made, the others use.
    let failing = Request::payment(&fresh_key()).act("status 400");
    for gateway in &gateways {
        assert_eq!(gateway.send(&failing).status, 400);
    }
    let arrivals = scene.upstream.arrivals();
    assert!(
        arrivals[2..].iter().all(|a| a.effect_id() == arrivals[1].effect_id()),
        "{arrivals:#?}"
    );
}

#[test]
fn killed_while_it_starts_it_starts_the_next_time() {
    let scene = Scene::new();
    for milliseconds in (0..48).step_by(4) {
        scene.serve().start_and_kill(std::time::Duration::from_millis(milliseconds));
    }
    scene.serve().start().send(&Request::payment(&fresh_key())).assert_stored(201);
}

#[test]
fn services_are_chosen_by_the_prefix_of_the_path() {
    let scene = Scene::new();
    let other = Upstream::start(&scene.dir.path().join("other"), UpstreamKind::Plain);
    let text = format!(
        r#"
        store = "sqlite:{{dir}}/hapax.db"
        scope = {{ single_tenant = true }}
        [[service]]
        upstream = "{{upstream}}"
        prefix = "/v1"
        [[service]]
        upstream = "{}"
        prefix = "/v1/other"
        [[operation]]
        name = "create"
        routes = ["POST /v1/things"]
        [[operation]]
        name = "create.other"
        routes = ["POST /v1/other/things"]
        "#,
        other.url()
    );
    let gateway = Serve::configured(scene.dir.path(), &scene.upstream, &text).start();
    let one = Request::payment(&fresh_key()).to("/v1/things");
    let two = Request::payment(&fresh_key()).to("/v1/other/things");
    for request in [&one, &two] {
        let first = gateway.send(request);
        first.assert_stored(201);
        gateway.send(request).assert_replays(&first);
    }
    // A key at one service says nothing of the other.
    gateway.send(&one.to("/v1/other/things")).assert_stored(201);
    assert_eq!(gateway.send(&Request::get("/v2")).status, 404);
    assert_eq!(gateway.send(&Request::get("/v1x")).status, 404);
    assert_eq!(scene.upstream.only_arrival().target, "/v1/things");
    other.assert_arrivals(2);
}

#[test]
fn an_operation_at_two_services_is_refused() {
    let scene = Scene::new();
    let two = "[[service]]\nupstream = \"http://127.0.0.1:9\"\nprefix = \"/v2\"\n\
               [[operation]]\nname = \"create\"\nroutes = [\"POST /v1\", \"POST /v2\"]\n";
    assert_refused(&scene.configured(two), &["several services", "operation for each"]);
}

#[test]
fn a_log_that_cannot_be_written_changes_nothing() {
    let mut stage = Stage::of(UpstreamKind::Plain, Serve::deaf);
    let lost = Request::payment(&fresh_key()).act("effect; cut");
    for _ in 0..2 {
        stage.gateway.send(&lost).assert_problem(409, "outcome-unknown");
    }
    stage.upstream.kill();
    let unsent = Request::payment(&fresh_key());
    stage.gateway.send(&unsent).assert_problem(503, "upstream-unreachable");
    stage.gateway.terminate();
    assert_eq!(stage.gateway.ended(SOON).code(), Some(0));
    let refused = Serve::bare(stage.dir()).deaf().run();
    assert_eq!(refused.code, Some(2), "{refused:?}");
}

#[test]
fn a_start_that_is_refused_leaves_nothing_behind() {
    let scene = Scene::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let refused = Serve::new(scene.dir.path(), &scene.upstream)
        .without("--listen", 1)
        .args(["--listen", &address])
        .run();
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("choose another address or port"), "{refused:?}");
    assert!(!scene.dir.path().join("hapax.db").exists());
    assert!(!scene.dir.path().join("hapax.db.effect-key").exists());
}

#[test]
fn as_many_threads_serve_connections_as_were_asked_for() {
    let scene = Scene::new();
    let gateway = scene.serve().workers(2).start();
    let threads = fs::read_dir(format!("/proc/{}/task", gateway.id())).expect("its threads");
    let name = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("comm")).ok();
    let names = threads.flatten().filter_map(name);
    assert_eq!(names.filter(|name| name.starts_with("hapax-worker-")).count(), 2);
}

#[test]
fn more_workers_than_there_are_files_for_are_refused_and_leave_nothing_behind() {
    let scene = Scene::new();
    let refused = scene.serve().with_files(200).workers(200).run();
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("no threads to serve connections"), "{refused:?}");
    assert!(refused.stderr.contains("fewer than 200 with --workers"), "{refused:?}");
    assert!(!scene.database().exists());
}

#[test]
fn the_files_of_workers_are_counted_beside_those_of_connections() {
    let scene = Scene::new();
    // 10,000 connections and what else is open have room in it, and so have as many workers.
    let gateway = scene.serve().with_files(10_300).workers(100).start();
    let is_said = || gateway.stderr().join("\n").contains("fewer files may be open");
    eventually("that is said", SOON, is_said);
}

#[test]
fn a_gateway_does_not_start_in_front_of_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let refused = Serve::bare(dir.path())
        .without("--listen", 1)
        .args(["--listen", &free.to_string(), "--single-tenant"])
        .args(["--upstream", &format!("http://localhost:{}", free.port())])
        .run();
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("is this gateway itself"), "{refused:?}");
}

#[test]
fn a_word_that_is_no_log_level_is_refused() {
    let scene = Scene::new();
    for wrong in ["verbose", "blah=zzz", "=info"] {
        let refused = Serve::new(scene.dir.path(), &scene.upstream).env("HAPAX_LOG", wrong).run();
        assert_eq!(refused.code, Some(2), "{wrong}: {refused:?}");
        assert!(refused.stderr.contains("HAPAX_LOG"), "{refused:?}");
    }
}

#[test]
fn the_start_says_where_the_records_are_in_front_of_what_and_for_whom() {
    let stage = Stage::new();
    let said = stage.gateway.stdout().join("\n");
    let database = fs::canonicalize(stage.database()).expect("it is there");
    for line in [
        format!("store sqlite:{}", database.display()),
        format!("upstream {} for /", stage.upstream.url()),
        "scope single tenant".to_owned(),
    ] {
        assert!(said.contains(&line), "{line} is not in\n{said}");
    }
}

#[test]
fn a_configuration_is_checked_without_a_start() {
    let scene = Scene::new();
    let file = |name: &str, text: &str| {
        let path = scene.dir.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let service = "[[service]]\nupstream = \"http://127.0.0.1:9\"\n";
    let right = file("right.toml", &format!("scope = {{ single_tenant = true }}\n{service}"));
    let ran = hapax(["check", "--config", &right]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.stdout.contains("upstream http://127.0.0.1:9"), "{ran:#?}");
    assert!(!scene.database().exists());
    let ran = hapax(["check", "--config", &file("wrong.toml", service)]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    assert!(ran.stderr.contains("there is no scope"), "{ran:#?}");
}
