//! Answers of a server that are mapped to "none": an error of a call, or of reading an answer, that becomes the absence of an object.

/// Ways to map an error to nothing.
const TO_NOTHING: &[&str] = &[
    ".unwrap_or_default()",
    ".unwrap_or(false)",
    ".unwrap_or(None)",
    ".unwrap_or(Vec::new())",
    ".ok()",
    ".is_ok()",
    ".is_err()",
    ".is_ok_and(",
    "let Ok(",
];
/// Where answers of a server come from: a call, or a reader of what was answered.
const ANSWERS: &[&str] = &[
    ".await",
    "from_slice",
    "from_str(",
    "from_str::<",
    "from_value",
    "decode_json",
    "decode_as",
    ".model()",
    ".read::<",
    "Header::read",
    "read_metadata",
];

/// The statements of a source without comments and tests that do both, each on one line.
#[must_use]
pub fn mapped_to_nothing(code: &str) -> Vec<String> {
    let statements =
        code.split([';', '{', '}']).map(|one| one.split_whitespace().collect::<Vec<_>>().join(" "));
    let has = |text: &str, words: &[&str]| words.iter().any(|word| text.contains(word));
    statements
        .filter(|one| has(&one.replace(" .", "."), TO_NOTHING) && has(&one.replace(" .", "."), ANSWERS))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_whose_error_is_nothing_is_found_however_it_is_written() {
        for (code, count) in [
            ("let list = client.list(path).await.unwrap_or_default();", 1),
            ("let list = client\n    .list(path)\n    .await\n    .ok();", 1),
            ("let Ok(list) = client.list(path).await else { return };", 1),
            ("if let Ok(pod) = serde_json::from_slice::<Pod>(&found) { use_it(pod) }", 1),
            ("let list = client.list(path).await?;", 0),
            ("let name = metadata.name.unwrap_or_default();", 0),
        ] {
            assert_eq!(mapped_to_nothing(code).len(), count, "{code}");
        }
    }
}
