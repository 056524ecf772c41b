//! A chromium over its debugging pipe: commands, answers and events are JSON, each ended by a zero byte. It reaches this machine alone.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    env,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, channel},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// A machine may be slow; what is not there by then does not come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A click on something that is drawn anew at that very moment is lost, to a person as well: it is repeated after this.
const CLICK_AGAIN: Duration = Duration::from_secs(5);

/// Nothing is asked of any other machine: no name is resolved, nothing is updated, nothing is reported.
const FLAGS: [&str; 22] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--ignore-certificate-errors",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-breakpad",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--disable-features=Translate,MediaRouter,OptimizationHints,AutofillServerCommunication",
    "--metrics-recording-only",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--hide-scrollbars",
    "--password-store=basic",
];

/// Where a chromium is, if there is one.
pub(crate) fn find() -> Option<PathBuf> {
    if let Some(named) = env::var_os("CHROMIUM") {
        return Some(named.into());
    }
    let path = env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser"];
    env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name))).find(|file| file.is_file())
}

/// One browser at a time: each is several processes and half a gigabyte, however many cores run tests.
static TURN: Mutex<()> = Mutex::new(());

/// A browser that ends with this.
pub(crate) struct Browser {
    _turn: MutexGuard<'static, ()>,
    process: Child,
    input: RefCell<ChildStdin>,
    answers: Receiver<Value>,
    state: RefCell<State>,
    profile: tempfile::TempDir,
}

#[derive(Default)]
struct State {
    last: u64,
    /// By session: what went wrong in a page.
    problems: BTreeMap<String, Vec<String>>,
    /// By session: origins that a page asked.
    origins: BTreeMap<String, BTreeSet<String>>,
}

/// How long a browser may take to end by itself, and its files to be gone.
const ENDING: Duration = Duration::from_secs(10);

impl Drop for Browser {
    fn drop(&mut self) {
        // Asked to end, it ends its own processes, which otherwise write on into its folder.
        if let Ok(mut input) = self.input.try_borrow_mut() {
            let _ = input.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        }
        let end = Instant::now() + ENDING;
        while Instant::now() < end && matches!(self.process.try_wait(), Ok(None)) {
            thread::sleep(LOOK_EVERY);
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        while Instant::now() < end && std::fs::remove_dir_all(self.profile.path()).is_err() {
            thread::sleep(LOOK_EVERY);
        }
    }
}

impl Browser {
    pub(crate) fn start(chromium: &Path) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let profile = tempfile::tempdir().unwrap();
        // The browser reads commands from file 3 and answers on file 4.
        let mut process = Command::new("sh")
            .args(["-c", r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null"#, "sh"])
            .arg(chromium)
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = RefCell::new(process.stdin.take().unwrap());
        let output = process.stdout.take().unwrap();
        let (send, answers) = channel();
        thread::spawn(move || {
            let messages = BufReader::new(output).split(0).map_while(Result::ok);
            for message in messages.filter_map(|bytes| serde_json::from_slice::<Value>(&bytes).ok()) {
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        Self { _turn: turn, process, input, answers, state: RefCell::default(), profile }
    }

    /// A command and its answer.
    pub(crate) fn call(&self, session: &str, method: &str, params: &Value) -> Result<Value, String> {
        let id = {
            let mut state = self.state.borrow_mut();
            state.last += 1;
            state.last
        };
        let mut command = json!({"id": id, "method": method, "params": params});
        if !session.is_empty() {
            command["sessionId"] = json!(session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.input.borrow_mut().write_all(&bytes).map_err(|error| format!("{method}: {error}"))?;
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let message = self.answers.recv_timeout(left).map_err(|error| format!("{method}: {error}"))?;
            if message["id"] == id {
                return match message.get("error") {
                    Some(error) => Err(format!("{method}: {error}")),
                    None => Ok(message["result"].clone()),
                };
            }
            self.note(&message);
        }
    }

    /// Keeps of an event what a test asks for later.
    fn note(&self, event: &Value) {
        let session = event["sessionId"].as_str().unwrap_or_default().to_owned();
        let params = &event["params"];
        let mut state = self.state.borrow_mut();
        let problem = match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
            "Runtime.consoleAPICalled" if params["type"] == "error" => Some(params["args"].to_string()),
            // Which requests the server refuses is no fault of the page: it asks what it may.
            "Log.entryAdded"
                if params["entry"]["level"] == "error" && params["entry"]["source"] != "network" =>
            {
                Some(params["entry"].to_string())
            }
            "Network.requestWillBeSent" => {
                let address = params["request"]["url"].as_str().unwrap_or_default();
                let origin = address.split('/').take(3).collect::<Vec<_>>().join("/");
                state.origins.entry(session.clone()).or_default().insert(origin);
                None
            }
            _ => None,
        };
        state.problems.entry(session).or_default().extend(problem);
    }

    /// A page with cookies and storage of its own.
    pub(crate) fn page(&self, width: u32, height: u32) -> Page<'_> {
        let call = |method: &str, params: Value| self.call("", method, &params).unwrap();
        let context = call("Target.createBrowserContext", json!({}))["browserContextId"].clone();
        let target = call(
            "Target.createTarget",
            json!({"url": "about:blank", "browserContextId": context, "width": width, "height": height}),
        );
        let attached =
            call("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        let session = attached["sessionId"].as_str().unwrap().to_owned();
        let page = Page { browser: self, session, target: target["targetId"].clone() };
        for domain in ["Page", "Runtime", "Network", "Log", "Performance"] {
            page.call(&format!("{domain}.enable"), &json!({}));
        }
        page.size(width, height, 1);
        page
    }
}

/// A tab.
pub(crate) struct Page<'b> {
    browser: &'b Browser,
    session: String,
    target: Value,
}

impl Page<'_> {
    pub(crate) fn call(&self, method: &str, params: &Value) -> Value {
        self.browser.call(&self.session, method, params).unwrap()
    }

    pub(crate) fn close(&self) {
        let _ = self.browser.call("", "Target.closeTarget", &json!({"targetId": self.target}));
    }

    pub(crate) fn size(&self, width: u32, height: u32, scale: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// `prefers-color-scheme` and the like.
    pub(crate) fn prefer(&self, feature: &str, value: &str) {
        let features = json!([{"name": feature, "value": value}]);
        self.call("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    pub(crate) fn open(&self, address: &str) {
        self.call("Page.navigate", &json!({"url": address}));
    }

    /// The value of an expression, or why there is none: a page that is left has none.
    pub(crate) fn try_eval(&self, expression: &str) -> Result<Value, String> {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true});
        let answer = self.browser.call(&self.session, "Runtime.evaluate", &params)?;
        match answer.get("exceptionDetails") {
            Some(details) => Err(details.to_string()),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    pub(crate) fn eval(&self, expression: &str) -> Value {
        self.try_eval(expression).unwrap_or_else(|why| panic!("{expression}: {why}"))
    }

    fn holds(&self, condition: &str) -> bool {
        self.try_eval(&format!("Boolean({condition})")).is_ok_and(|value| value == true)
    }

    fn holds_within(&self, condition: &str, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        loop {
            if self.holds(condition) {
                return true;
            }
            if Instant::now() > end {
                return false;
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until a condition holds.
    pub(crate) fn until(&self, condition: &str) {
        if !self.holds_within(condition, PATIENCE) {
            let text = self.try_eval("document.body.innerText").unwrap_or_default();
            panic!(
                "does not hold after {PATIENCE:?}: {condition}\nthe page says: {text}\nand went wrong by: {:?}",
                self.problems()
            );
        }
    }

    /// Clicks on what `find` finds, once it can be clicked, until `then` holds.
    pub(crate) fn click(&self, find: &str, then: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.holds(then) {
            assert!(Instant::now() < end, "clicked on {find}, and never: {then}");
            self.until(&format!("({then}) || (({find}) && !({find}).disabled)"));
            let place = self.try_eval(&format!(
                "(() => {{ const found = {find}; if (!found || found.disabled) return null; found.scrollIntoView({{ block: 'center', inline: 'nearest' }});
                 const box = found.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; }})()"
            ));
            if let Ok(Value::Array(place)) = place {
                for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
                    let event = json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
                    self.call("Input.dispatchMouseEvent", &event);
                }
            }
            self.holds_within(then, CLICK_AGAIN);
        }
    }

    /// Clicks at a place while a key is held: 2 is Ctrl, 8 is Shift.
    pub(crate) fn click_with(&self, (x, y): (u32, u32), modifiers: u32) {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1, "modifiers": modifiers});
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Presses at one place, moves and releases at another.
    pub(crate) fn drag(&self, from: (u32, u32), to: (u32, u32)) {
        let middle = (from.0.midpoint(to.0), from.1.midpoint(to.1));
        for (kind, (x, y), buttons) in [
            ("mouseMoved", from, 0),
            ("mousePressed", from, 1),
            ("mouseMoved", middle, 1),
            ("mouseMoved", to, 1),
            ("mouseReleased", to, 0),
        ] {
            let event =
                json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// One key: a character, or a name such as `Enter`.
    pub(crate) fn key(&self, key: &str) {
        let (text, code) = match key {
            "Enter" => ("\r", 13),
            "Escape" => ("", 27),
            "Tab" => ("", 9),
            " " => (" ", 32),
            "ArrowLeft" => ("", 37),
            "ArrowUp" => ("", 38),
            "ArrowRight" => ("", 39),
            "ArrowDown" => ("", 40),
            other => (other, 0),
        };
        let mut event = json!({"type": "keyDown", "key": key, "windowsVirtualKeyCode": code});
        if !text.is_empty() {
            event["text"] = json!(text);
        }
        self.call("Input.dispatchKeyEvent", &event);
        event["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", &event);
    }

    /// Presses a key until `then` holds: a page that is about to close a dialog may not hear the first.
    pub(crate) fn key_until(&self, key: &str, then: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.holds(then) {
            assert!(Instant::now() < end, "pressed {key}, and never: {then}");
            self.key(key);
            self.holds_within(then, CLICK_AGAIN);
        }
    }

    /// Writes where the focus is.
    pub(crate) fn write(&self, text: &str) {
        self.call("Input.insertText", &json!({"text": text}));
    }

    /// A picture of what is seen, as PNG in base64.
    pub(crate) fn picture(&self) -> String {
        let answer = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        answer["data"].as_str().unwrap().to_owned()
    }

    pub(crate) fn problems(&self) -> Vec<String> {
        self.browser.state.borrow().problems.get(&self.session).cloned().unwrap_or_default()
    }

    /// Where requests went to.
    pub(crate) fn origins(&self) -> BTreeSet<String> {
        self.browser.state.borrow().origins.get(&self.session).cloned().unwrap_or_default()
    }
}
