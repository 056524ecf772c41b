//! Properties of characters: their general category, their script, and which differ in case alone.
//!
//! The tables are written by `tests/tables.rs` from those of `regex`, in a form that is a fifth as large: lengths of runs instead of first and last
//! characters, and every character once instead of once for each name that it goes by.

use alloc::{string::String, vec::Vec};

use crate::set::{self, LAST, Set};

/// General categories, in the order of their numbers.
pub(crate) const CATEGORIES: [&str; 30] = [
    "Cc", "Cf", "Cn", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No", "Pc",
    "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs",
];
/// Scripts, in the order of their numbers; a character without one has the number after the last.
pub(crate) const SCRIPTS: &str = "\
Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki \
Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee \
Chorasmian Common Coptic Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra \
Duployan Egyptian_Hieroglyphs Elbasan Elymaic Ethiopic Garay Georgian Glagolitic Gothic Grantha Greek \
Gujarati Gunjala_Gondi Gurmukhi Gurung_Khema Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana \
Imperial_Aramaic Inherited Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana \
Kawi Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki Khudawadi Kirat_Rai Lao Latin Lepcha Limbu \
Linear_A Linear_B Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Masaram_Gondi \
Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro \
Multani Myanmar Nabataean Nag_Mundari Nandinagari New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham \
Ol_Chiki Ol_Onal Old_Hungarian Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_Sogdian \
Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa \
Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham SignWriting Sinhala \
Sogdian Sora_Sompeng Soyombo Sundanese Sunuwar Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham \
Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Todhri Toto Tulu_Tigalari \
Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square";

/// Runs of characters in order: how many, and the number of their category.
const CATEGORY_RUNS: &[u8] = include_bytes!("categories.bin");
/// The same for scripts.
const SCRIPT_RUNS: &[u8] = include_bytes!("scripts.bin");
/// Characters that differ in case alone: how far the first is from the first of the orbit before and how many there are, then how far each is from the last.
const ORBITS: &[u8] = include_bytes!("orbits.bin");

/// The characters of a property, by the name that Go has for it; names may be spelled in other cases as well.
pub(crate) fn property(name: &str) -> Option<Set> {
    let wanted = plain(name);
    if wanted == "any" {
        return Some(alloc::vec![(0, LAST)]);
    }
    let is_category = |known: &str| match wanted.len() {
        1 => plain(known).starts_with(&wanted),
        _ => plain(known) == wanted || (wanted == "lc" && matches!(known, "Ll" | "Lt" | "Lu")),
    };
    if CATEGORIES.iter().any(|known| is_category(known)) {
        return Some(runs(CATEGORY_RUNS, |number| {
            CATEGORIES.get(number).is_some_and(|known| is_category(known))
        }));
    }
    let script = SCRIPTS.split(' ').position(|known| plain(known) == wanted)?;
    Some(runs(SCRIPT_RUNS, |number| number == script))
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase()).collect()
}

fn runs(table: &[u8], wanted: impl Fn(usize) -> bool) -> Set {
    let mut bytes = table.iter();
    let (mut set, mut next) = (Vec::new(), 0);
    while let (Some(length), Some(number)) = (number(&mut bytes), bytes.next()) {
        if wanted(usize::from(*number)) {
            set.push((next, next + length - 1));
        }
        next += length;
    }
    set::ordered(set)
}

/// With all characters that differ in case alone.
pub(crate) fn folded(mut found: Set) -> Set {
    let known = found.clone();
    orbits(&mut |orbit| {
        if orbit.iter().any(|c| set::contains(&known, *c)) {
            found.extend(orbit.iter().map(|c| (*c, *c)));
        }
    });
    set::ordered(found)
}

/// Calls for every set of characters that differ in case alone.
pub(crate) fn orbits(visit: &mut dyn FnMut(&[u32])) {
    let mut bytes = ORBITS.iter();
    let (mut first, mut orbit) = (0, Vec::new());
    while let Some(head) = number(&mut bytes) {
        first += head >> 2;
        orbit.clear();
        let mut last = first;
        orbit.push(last);
        for _ in 0..=(head & 3) {
            last += number(&mut bytes).unwrap_or_default();
            orbit.push(last);
        }
        visit(&orbit);
    }
}

/// Seven bits a byte, the lowest first.
fn number(bytes: &mut core::slice::Iter<'_, u8>) -> Option<u32> {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = *bytes.next()?;
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
        shift += 7;
    }
}
