//! Tokens that are shown to the server, and those that it gives out.

use lazaret_json::{Value, json};
use lazaret_kinds::User;

use super::{bootstrap_tokens, identity::authenticated, tokens};
use crate::{Server, clock};

impl Server {
    /// The status of a TokenReview.
    pub(crate) fn review_token(&self, spec: &Value) -> Value {
        let asked = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let asked: Vec<&str> = asked.collect();
        let audiences = if asked.is_empty() { &[tokens::ISSUER][..] } else { &asked };
        match self.authenticate_token(spec["token"].as_str().unwrap_or_default(), audiences) {
            Ok(accepted) => json!({
                "authenticated": true, "user": user_info(&accepted.user), "audiences": accepted.audiences,
            }),
            Err(error) => json!({"authenticated": false, "error": error}),
        }
    }

    pub(crate) fn issue_token(&self, account: &Value, spec: &Value) -> Result<Value, String> {
        let keys = self.token_keys().ok_or("this server gives out no tokens")?;
        tokens::issue(self.stored(), keys, account, spec)
    }

    /// Whose token this is, if it is meant for one of the audiences.
    fn authenticate_token(&self, token: &str, audiences: &[&str]) -> Result<tokens::Accepted, String> {
        if audiences.contains(&tokens::ISSUER)
            && let Some(user) = bootstrap_tokens::authenticate(self.stored(), token, clock::now())
        {
            let audiences = vec![tokens::ISSUER.to_owned()];
            return Ok(tokens::Accepted { user: authenticated(user), audiences });
        }
        let keys = self.token_keys().ok_or("this server gives out no tokens")?;
        tokens::authenticate(self.stored(), keys, token, audiences).map(|mut accepted| {
            accepted.user = authenticated(accepted.user);
            accepted
        })
    }

    /// Whose token this is, if it is meant for this server.
    pub(crate) fn token_user(&self, token: &str) -> Option<User> {
        self.authenticate_token(token, &[tokens::ISSUER]).ok().map(|accepted| accepted.user)
    }
}

/// A user as reviews show it.
pub(crate) fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.clone().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}
