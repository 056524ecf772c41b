//! Errors of the API in words.

/// The server's own words, or why there is no answer: the client's text of a refusal shows a structure of this program.
pub(crate) fn api_words(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error { status.message.clone() } else { error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_what_the_server_said() {
        let status = kube::core::Status::failure("pods \"a\" is forbidden", "Forbidden");
        assert_eq!(api_words(&kube::Error::Api(status.boxed())), "pods \"a\" is forbidden");
    }
}
