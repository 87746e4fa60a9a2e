//! Chromium without a window, told what to do over its debugging pipe.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{others::is_left_out, wait::until};

/// Nothing that a page does takes longer, on a machine that also compiles.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running browser with one page. Dropped, it is killed.
pub struct Browser {
    child: Child,
    /// Commands, each with a zero byte behind it.
    commands: ChildStdin,
    /// What it answers and reports.
    messages: Receiver<Value>,
    last: u64,
    page: String,
    _profile: TempDir,
}

impl Browser {
    /// Whether it is to be left out, because `cargo xtask test` could not install it and was told to
    /// go on.
    pub fn is_left_out() -> bool {
        is_left_out(&["chromium"])
    }

    /// Starts it, with a profile of its own.
    ///
    /// # Panics
    /// When it is not installed: `cargo xtask setup` does that.
    #[track_caller]
    pub fn start() -> Self {
        let profile = tempfile::tempdir().expect("a directory");
        let mut child = command(profile.path()).spawn().expect("sh runs");
        let commands = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for message in stdout.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("JSON");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let (last, page) = (0, String::new());
        let mut browser = Self { child, commands, messages, last, page, _profile: profile };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", attach);
        session["sessionId"].as_str().expect("a session").clone_into(&mut browser.page);
        browser
    }

    /// Opens an address, as if it was typed in; `false` where that came to nothing.
    #[track_caller]
    pub fn open(&mut self, url: &str) -> bool {
        let came = self.ask("Page.navigate", json!({ "url": url }));
        let is_there = came["errorText"].is_null();
        self.loaded();
        is_there
    }

    /// Loads again what is shown, as the button does: what was a POST is sent again.
    #[track_caller]
    pub fn reload(&mut self) {
        self.leave(|browser| browser.ask("Page.reload", json!({})));
    }

    /// Does what leads to another page, and waits for that.
    #[track_caller]
    pub fn leave_by(&mut self, script: &str) {
        self.leave(|browser| browser.run(script));
    }

    #[track_caller]
    fn leave(&mut self, by: impl FnOnce(&mut Self) -> Value) {
        // So that what is shown now is not taken for what comes.
        self.run("window.isOld = true");
        by(self);
        until("the page is another one", PATIENCE, || {
            (self.try_run("window.isOld").ok()? != true).then_some(())
        });
        self.loaded();
    }

    /// The text that is shown.
    #[track_caller]
    pub fn text(&mut self) -> String {
        let text = self.run("document.body ? document.body.innerText : ''");
        text.as_str().expect("text").to_owned()
    }

    /// What a script in the page comes to; a promise is waited for.
    ///
    /// # Panics
    /// When it throws.
    #[track_caller]
    pub fn run(&mut self, script: &str) -> Value {
        self.try_run(script).unwrap_or_else(|thrown| panic!("{script} threw {thrown:#}"))
    }

    fn try_run(&mut self, script: &str) -> Result<Value, Value> {
        let expression = json!({
            "expression": script, "awaitPromise": true, "returnByValue": true, "userGesture": true,
        });
        let came = self.try_ask("Runtime.evaluate", expression)?;
        match came.get("exceptionDetails") {
            Some(thrown) => Err(thrown.clone()),
            None => Ok(came["result"]["value"].clone()),
        }
    }

    /// Waits until all of the page is there.
    #[track_caller]
    fn loaded(&mut self) {
        until("the page is loaded", PATIENCE, || {
            (self.try_run("document.readyState").ok()? == "complete").then_some(())
        });
    }

    #[track_caller]
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.try_ask(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.last += 1;
        let mut command = json!({ "id": self.last, "method": method, "params": params });
        if !self.page.is_empty() {
            command["sessionId"] = self.page.clone().into();
        }
        let bytes = [command.to_string().as_bytes(), b"\0"].concat();
        self.commands.write_all(&bytes).expect("chromium runs (cargo xtask setup installs it)");
        loop {
            let message = self.messages.recv_timeout(PATIENCE);
            let message = message.unwrap_or_else(|_| panic!("chromium does not answer {method}"));
            if message["id"] == self.last {
                return match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].clone()),
                };
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its processes end with the pipe; the first one at once.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The pipe is what it knows as files 3 and 4; a shell puts them there.
fn command(profile: &Path) -> Command {
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg("exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1")
        .arg("chromium")
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"])
        // Nothing but what the test asks for.
        .args(["--no-first-run", "--disable-background-networking", "--disable-sync"])
        .args(["--disable-component-update", "--no-proxy-server", "--disable-dev-shm-usage"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}
