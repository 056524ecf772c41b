//! The dashboard as `lazaret up` and `kubectl device ui` serve it: who gets in, and who does not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

use kube::{
    Config,
    client::Body,
    config::{AuthInfo, Kubeconfig},
};
use serde_json::Value;

const LAZARET: &str = env!("CARGO_BIN_EXE_lazaret");
/// A machine may be slow; an answer that is not there by then does not come.
const PATIENCE: Duration = Duration::from_secs(180);
/// Before the file in which a service keeps the address with the token.
const KEPT: &str = " (the address that signs one browser in: ";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";

/// A process that ends with this, and the token in the line that it printed.
struct Running {
    process: Child,
    token: String,
    address: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a command that prints the address of a dashboard.
fn start(command: &mut Command) -> Running {
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let line = lines.find_map(|line| Some(line.unwrap().strip_prefix("dashboard: ")?.to_owned())).unwrap();
    let line = match line.split_once(KEPT) {
        Some((_, path)) => fs::read_to_string(path.trim_end_matches(')')).unwrap(),
        None => line,
    };
    let (address, token) = line.trim().split_once("/ui/#token=").unwrap();
    Running { process, token: token.to_owned(), address: address.to_owned() }
}

fn up(folder: &tempfile::TempDir) -> Running {
    let mut command = Command::new(LAZARET);
    command
        .args(["up", "--api-only", "--ephemeral", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.path());
    start(&mut command)
}

/// An answer: the code, a header by name, the body.
struct Answer {
    code: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let start = format!("{name}: ");
        self.head.lines().find_map(|line| {
            line.get(..start.len())?.eq_ignore_ascii_case(&start).then(|| &line[start.len()..])
        })
    }

    fn cookie(&self) -> String {
        self.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
    }

    fn secret(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap();
        body["secret"].as_str().unwrap().to_owned()
    }
}

/// A browser without a certificate that trusts the server.
struct Browser {
    client: kube::Client,
}

impl Browser {
    async fn new(folder: &tempfile::TempDir) -> Self {
        let file = Kubeconfig::read_from(folder.path().join("kubeconfig")).unwrap();
        let mut config = Config::from_custom_kubeconfig(file, &Default::default()).await.unwrap();
        config.auth_info = AuthInfo::default();
        Self { client: kube::Client::try_from(config).unwrap() }
    }

    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.client.send(request.body(Body::empty()).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let lines =
            response.headers().iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()));
        let head: String = lines.collect();
        let body = String::from_utf8(response.into_body().collect_bytes().await.unwrap().to_vec()).unwrap();
        Answer { code, head, body }
    }
}

#[test]
fn the_printed_address_lets_one_browser_in_as_the_administrator() {
    let folder = tempfile::tempdir().unwrap();
    let server = up(&folder);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let browser = Browser::new(&folder).await;
        let html = ("accept", "text/html,*/*;q=0.8");
        let led = browser.ask("GET", "/", &[html]).await;
        assert_eq!((led.code, led.header("location")), (302, Some("/ui/")));
        assert_ne!(browser.ask("GET", "/", &[("accept", "application/json")]).await.code, 302);
        let page = browser.ask("GET", "/ui/", &[html]).await;
        assert!(
            page.code == 200 && page.body.contains("<script type=\"module\" src=\"boot.js\">"),
            "{}",
            page.body
        );
        assert!(page.header("content-security-policy").unwrap().contains("default-src 'none'"));
        assert_eq!(browser.ask("GET", SLICES, &[]).await.code, 403, "nobody is signed in");

        let login = browser.ask("POST", "/ui/login", &[("lazaret-login", &server.token)]).await;
        assert_eq!(login.code, 200, "{}", login.body);
        let again = browser.ask("POST", "/ui/login", &[("lazaret-login", &server.token)]).await;
        assert_eq!(again.code, 401, "a token is of use once");
        let (cookie, secret) = (login.cookie(), login.secret());
        let both = [("cookie", cookie.as_str()), ("lazaret-dashboard", secret.as_str())];
        assert_eq!(browser.ask("GET", SLICES, &both).await.code, 200);
        assert_eq!(browser.ask("GET", SLICES, &[both[0]]).await.code, 403, "a cookie alone is anybody's");
        assert_eq!(browser.ask("GET", SLICES, &[both[1]]).await.code, 401);
        let wrong = [both[0], ("lazaret-dashboard", "AAAA")];
        assert_eq!(browser.ask("DELETE", SLICES, &wrong).await.code, 401);
        let session = browser.ask("GET", "/ui/session", &[both[0], ("lazaret-dashboard", "session")]).await;
        assert!(session.body.contains("kubernetes-admin"), "{}", session.body);

        let watching = browser.ask("GET", "/api/v1/secrets?watch=true", &both);
        let signing_out = async {
            // The watch is there first where both begin at once; it ends in the other case as well.
            tokio::task::yield_now().await;
            browser.ask("POST", "/ui/logout", &both).await
        };
        let (watched, signed_out) =
            tokio::time::timeout(PATIENCE, async { tokio::join!(watching, signing_out) }).await.unwrap();
        assert!(matches!(watched.code, 200 | 401), "{}", watched.body);
        assert_eq!(signed_out.code, 200);
        assert_eq!(browser.ask("GET", SLICES, &both).await.code, 401, "the session is over");
    });
}

#[test]
fn the_numbers_of_the_page_are_metrics_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(LAZARET);
    command
        .args([
            "up",
            "--nodes",
            "2",
            "--devices",
            "4",
            "--ephemeral",
            "--listen",
            "127.0.0.1:0",
            "--data-dir",
        ])
        .arg(folder.path());
    let _server = start(&mut command);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let file = Kubeconfig::read_from(folder.path().join("kubeconfig")).unwrap();
        let config = Config::from_custom_kubeconfig(file, &Default::default()).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        let mut last = String::new();
        for _ in 0..PATIENCE.as_secs() {
            last =
                client.request_text(http::Request::get("/metrics").body(Vec::new()).unwrap()).await.unwrap();
            let mut counts = last.lines().filter(|line| line.starts_with("lazaret_devices{"));
            if counts.any(|line| line.contains("state=\"Free\",effect=\"\"} 8")) {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        panic!("eight free devices are not counted: {last}");
    });
}

/// A request over a socket of its own, as a browser or a web site would send it.
fn send(port: &str, request: &str) -> Answer {
    let mut socket = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(request.replace('\n', "\r\n").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
    let (head, body) = text.split_once("\n\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { code, head: head.to_owned(), body: body.to_owned() }
}

#[test]
fn device_ui_answers_its_own_page_alone() {
    let folder = tempfile::tempdir().unwrap();
    let _server = up(&folder);
    let mut command = Command::new(LAZARET);
    command.args(["device", "ui"]).env("KUBECONFIG", folder.path().join("kubeconfig"));
    let ui = start(&mut command);
    let port = ui.address.rsplit(':').next().unwrap();
    assert!(ui.address.starts_with("http://127.0.0.1:"), "{}", ui.address);
    let ask = |first: &str, host: &str, more: &str| {
        send(port, &format!("{first} HTTP/1.1\nHost: {host}\nConnection: close\n{more}\n"))
    };
    let here = format!("127.0.0.1:{port}");
    assert_eq!(ask("GET /ui/", &here, "").code, 200);
    for host in ["evil.example", "evil.example:80", &format!("127.0.0.2:{port}")] {
        assert_eq!(ask("GET /ui/", host, "").code, 403, "{host}: a name that points here");
    }
    for hosts in ["", &format!("Host: {here}\nHost: {here}\n"), "Host: a@b\n"] {
        let asked = send(port, &format!("GET /ui/ HTTP/1.1\nConnection: close\n{hosts}\n"));
        assert_eq!(asked.code, 400, "{hosts:?}: a request has one host");
    }
    assert_eq!(ask(&format!("GET {SLICES}"), &here, "").code, 401);

    let login = ask("POST /ui/login", &here, &format!("Lazaret-Login: {}\n", ui.token));
    assert_eq!(login.code, 200, "{}", login.body);
    let both = format!("Cookie: {}\nLazaret-Dashboard: {}\n", login.cookie(), login.secret());
    let listed = ask(&format!("GET {SLICES}"), &here, &both);
    assert!(
        listed.code == 200 && listed.body.contains("ResourceSliceList"),
        "{} {}",
        listed.code,
        listed.body
    );
    assert_eq!(ask(&format!("GET {SLICES}"), &here, &format!("Cookie: {}\n", login.cookie())).code, 401);
    for path in [
        "/",
        "/logs/",
        "/api/v1/nodes/a/proxy/run",
        "/api/v1/namespaces/a/pods/b/exec",
        "/api/v1/nodes/a%2Fproxy",
        "/api/../logs",
    ] {
        assert_eq!(ask(&format!("GET {path}"), &here, &both).code, 404, "{path} is no business of the page");
    }
    let watching = || {
        let mut socket = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let watch = format!("GET {SLICES}?watch=true HTTP/1.1\nHost: {here}\nConnection: close\n{both}\n");
        socket.write_all(watch.replace('\n', "\r\n").as_bytes()).unwrap();
        let mut begun = [0; 12];
        socket.read_exact(&mut begun).unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200");
        socket
    };
    let acting = format!("{both}Impersonate-User: nobody\n");
    assert_eq!(
        ask(&format!("GET {SLICES}"), &here, &acting).code,
        200,
        "headers of the page are not passed on"
    );
    let mut watch = watching();
    assert_eq!(ask("POST /ui/logout", &here, &both).code, 200);
    // It would go on for 45 minutes.
    watch.read_to_end(&mut Vec::new()).unwrap();
}
