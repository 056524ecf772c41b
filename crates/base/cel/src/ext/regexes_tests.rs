use super::*;
use alloc::string::ToString as _;
use alloc::vec;

#[track_caller]
fn check(pattern: &str, text: &str, expected: &str) {
    let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
    assert_eq!(find(&regex, text), expected, "{pattern} on {text:?}");
}

#[test]
fn perl_classes_are_ascii() {
    check(r"\d+", "٣4", "4");
    check(r"\w+", "é_a1é", "_a1");
    check(r"\s", "\u{a0} ", " ");
    check(r"\D", "4é", "é");
    check(r"[\W]+", "aéb", "é");
    check(r"[^\d\-]+", "1-é2", "é");
    check(r"\bb", "éb", "b");
    check(r"a\B.", "aé ab", "ab");
}

#[test]
fn classes_have_no_set_operations() {
    check(r"[a&&b]+", "&&", "&&");
    check(r"[a~~b]+", "x~b", "~b");
    check(r"[[a]+", "x[[a", "[[a");
    check(r"[]a]+", "]a", "]a");
    check(r"[^]a]", "]b", "b");
    check(r"[--/]+", "-./", "-./");
    check(r"[a\]b-]+", "a]-b", "a]-b");
    check(r"[[:alpha:]_]+", "1ab_", "ab_");
    check(r"[[:^alpha:]]+", "a12", "12");
    check(r"[\p{Greek}\pN]+", "aα1", "α1");
    check(r"\p{^Greek}+", "αb", "b");
}

#[test]
fn escapes_mean_what_they_mean_in_re2() {
    check(r"\<\>", "a<>", "<>");
    check(r"\x41\x{42}\101\0", "ABA\0", "ABA\0");
    check(r"\Qa.b\E.", "axb a.bc", "a.bc");
    check(r"\_\-\/", "_-/", "_-/");
    check(r"a{,2}b", "a{,2}b", "a{,2}b");
    check(r"a{2", "a{2", "a{2");
    check(r"a{02}", "a{02}", "a{02}");
    check(r"x]}", "x]}", "x]}");
    check(r"\Aab\z", "ab", "ab");
    check(r"(?i)aB", "Ab", "Ab");
    check(r"(?s).+", "a\nb", "a\nb");
    check(r"(?U)a+", "aaa", "a");
    check(r"(?i-s:A)b", "ab", "ab");
    check(r"(?P<x>a)(?<y>b)", "ab", "ab");
    check(r"a{2,3}?", "aaa", "aa");
    check("", "abc", "");
}

#[test]
fn what_re2_refuses_is_refused() {
    for pattern in [
        "*a",
        "a**",
        "a*+",
        "a{2}{3}",
        "(",
        ")",
        "a)",
        "[a",
        r"\",
        r"\8",
        r"\1",
        r"\c",
        r"\Z",
        r"\u1234",
        "(?x)a",
        "(?u)a",
        "(?=a)",
        "(?!a)",
        "(?P<a>x)(?P<a>y)",
        "(?P<>x)",
        "(?P=a)",
        "a{1001}",
        "(a{100}){11}",
        "((a{10}){10}){11}",
        "a{2,1}",
        "[b-a]",
        "[a--]",
        "[[:nope:]]",
        r"\p{Nope}",
        r"[\b]",
        "|*",
        "(|+)",
        "(?i",
        "(?-)",
    ] {
        let error = compile(pattern).err().map(|error| error.to_string());
        assert!(error.as_deref().is_some_and(|e| e.starts_with("Illegal regex: ")), "{pattern}: {error:?}");
    }
}

#[test]
fn what_re2_takes_is_taken() {
    for pattern in ["(a{100}){10}", "^*", "a||b", "()", "(?:)", "(?i)", "(?ii)a", "a{0}", "|a", "(?i)(?-i)b"]
    {
        assert!(compile(pattern).is_ok(), "{pattern}");
    }
}

#[test]
fn compiled_size_is_bounded() {
    let error = compile(r"(\pL{10}){100}").unwrap_err().to_string();
    assert!(error.contains("needs more than"), "{error}");
}

#[test]
fn all_matches_up_to_a_limit() {
    let digits = compile("[0-9]+").unwrap();
    assert_eq!(find_all(&digits, "1 22 333", -1), vec!["1", "22", "333"]);
    assert_eq!(find_all(&digits, "1 22 333", 2), vec!["1", "22"]);
    assert_eq!(find_all(&digits, "1 22 333", 0), Vec::<&str>::new());
    assert_eq!(find_all(&digits, "none", -1), Vec::<&str>::new());
    let stars = compile("a*").unwrap();
    assert_eq!(find_all(&stars, "baaau", -1), vec!["", "aaa", ""]);
}

/// Each takes milliseconds to compile, or hardly anything.
#[test]
fn the_work_of_a_pattern_is_known_before_it_is_compiled() {
    for (pattern, least, most) in [
        ("^A100-.*$", 2_000, 5_000),
        (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", 2_000, 6_000),
        (r"^[a-z]{1,63}$", 2_000, 40_000),
        ("(.{30}){30}", 900_000, 2_000_000),
        ("[^a]{1000}", 1_000_000, 2_000_000),
        (r"(\pL\PL){5}", 200_000, 400_000),
        (r"[\x{100}-\x{10ffff}]{500}", 500_000, 2_000_000),
        ("(?i)(?:k|s){1000}", 400_000, 4_000_000),
    ] {
        let units = compile_units(pattern);
        assert!((least..=most).contains(&units), "{pattern}: {units}");
    }
    assert_eq!(compile_units("a{1001}"), 0, "refused before it is compiled");
}
