//! One-time tokens and sessions. Only a hash of either is kept.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    digest::{SHA256, digest},
    hmac,
};
use tokio::sync::watch;

/// A one-time token is of use for this long: time to copy a line from a terminal.
pub const LOGIN_SECONDS_MAX: u64 = 15 * 60;
/// A session in which nothing is asked for this long is over. An open page asks now and then.
pub const SESSION_IDLE_SECONDS_MAX: u64 = 60 * 60;
/// No session is longer than a working day.
pub const SESSION_SECONDS_MAX: u64 = 12 * 60 * 60;
/// Tokens that wait to be used; the oldest goes first.
const LOGINS_MAX: usize = 16;
/// Sessions at a time; the one that was idle for longest goes first.
const SESSIONS_MAX: usize = 256;
/// No token, cookie or secret of ours is longer. Longer ones are refused before they are hashed.
const WORD_BYTES_MAX: usize = 128;
const RANDOM_BYTES: usize = 32;

type Hash = [u8; 32];

/// The session is unknown or over, or its secret is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionOver;

/// A session that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    /// For the cookie.
    pub(crate) cookie: String,
}

/// The user of a request within a session.
#[derive(Clone, Debug)]
pub struct Visit<U> {
    /// The user that signed in.
    pub user: U,
    /// Answers that go on, watches above all, end with it.
    pub end: SessionEnd,
}

/// The end of one session: by signing out, by its age, by having been idle, or for newer ones.
#[derive(Clone, Debug)]
pub struct SessionEnd(watch::Receiver<()>);

impl SessionEnd {
    /// Returns when the session is over.
    pub async fn reached(mut self) {
        while self.0.changed().await.is_ok() {}
    }

    /// Whether the session is over.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.0.has_changed().is_err()
    }
}

#[derive(Debug)]
struct Login<U> {
    user: U,
    expires: u64,
}

#[derive(Debug)]
struct Session<U> {
    user: U,
    expires: u64,
    asked: u64,
    /// Nothing is ever sent: it goes with the session, which its receivers notice.
    end: watch::Sender<()>,
}

/// The sessions of one server. `U` is the user of a session. Time is in seconds, from any beginning.
pub struct Sessions<U> {
    /// The page's secret follows from the cookie by this key, so that it need not be kept.
    key: hmac::Key,
    logins: BTreeMap<Hash, Login<U>>,
    sessions: BTreeMap<Hash, Session<U>>,
}

impl<U> std::fmt::Debug for Sessions<U> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("sessions", &self.sessions.len()).finish_non_exhaustive()
    }
}

impl<U> Default for Sessions<U> {
    fn default() -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, &random()),
            logins: BTreeMap::new(),
            sessions: BTreeMap::new(),
        }
    }
}

impl<U: Clone> Sessions<U> {
    /// A token that `user` can begin a session with, once.
    pub fn invite(&mut self, now: u64, user: U) -> String {
        self.forget(now);
        if self.logins.len() >= LOGINS_MAX {
            let oldest = self.logins.iter().min_by_key(|(_, login)| login.expires).map(|(hash, _)| *hash);
            oldest.map(|hash| self.logins.remove(&hash));
        }
        let token = word();
        self.logins.insert(hash(&token), Login { user, expires: now + LOGIN_SECONDS_MAX });
        token
    }

    /// Begins a session with a token, which is of no use afterwards.
    pub(crate) fn begin(&mut self, now: u64, token: &str) -> Option<Begun> {
        self.forget(now);
        let login = (token.len() <= WORD_BYTES_MAX).then(|| self.logins.remove(&hash(token))).flatten()?;
        if self.sessions.len() >= SESSIONS_MAX {
            let idle = self.sessions.iter().min_by_key(|(_, session)| session.asked).map(|(hash, _)| *hash);
            idle.map(|hash| self.sessions.remove(&hash));
        }
        let cookie = word();
        let expires = now + SESSION_SECONDS_MAX;
        let session = Session { user: login.user, expires, asked: now, end: watch::Sender::new(()) };
        self.sessions.insert(hash(&cookie), session);
        Some(Begun { cookie })
    }

    /// The secret that the page repeats with every request.
    pub(crate) fn secret(&self, cookie: &str) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, cookie.as_bytes()))
    }

    /// The session of a cookie, whether or not the page's secret is known.
    pub(crate) fn of_cookie(&mut self, now: u64, cookie: &str) -> Option<Visit<U>> {
        self.forget(now);
        let known =
            (cookie.len() <= WORD_BYTES_MAX).then(|| self.sessions.get_mut(&hash(cookie))).flatten()?;
        known.asked = now;
        Some(Visit { user: known.user.clone(), end: SessionEnd(known.end.subscribe()) })
    }

    /// The session of a request that shows a cookie and the page's secret.
    pub(crate) fn visit(&mut self, now: u64, cookie: &str, secret: &str) -> Option<Visit<U>> {
        let shown = URL_SAFE_NO_PAD.decode(secret).ok()?;
        // Compares in a time that does not depend on where they differ.
        hmac::verify(&self.key, cookie.as_bytes(), &shown).ok()?;
        self.of_cookie(now, cookie)
    }

    pub(crate) fn end(&mut self, cookie: &str) {
        self.sessions.remove(&hash(cookie));
    }

    /// Ends what is too old.
    pub(crate) fn forget(&mut self, now: u64) {
        self.logins.retain(|_, login| now < login.expires);
        self.sessions.retain(|_, session| {
            now < session.expires && now < session.asked.saturating_add(SESSION_IDLE_SECONDS_MAX)
        });
    }
}

fn hash(word: &str) -> Hash {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, word.as_bytes()).as_ref());
    bytes
}

fn word() -> String {
    URL_SAFE_NO_PAD.encode(random())
}

fn random() -> [u8; RANDOM_BYTES] {
    let mut bytes = [0; RANDOM_BYTES];
    #[allow(clippy::expect_used, reason = "there is nothing sensible to do without randomness")]
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}
