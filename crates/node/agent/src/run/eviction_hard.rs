//! Thresholds of pressure as a person writes them: `memory.available<100Mi,nodefs.available<10%`.

use std::collections::BTreeMap;

use lazaret_model::Quantity;
use lazaret_pods::{Signal, Threshold, Thresholds};
use thiserror::Error;

/// Thresholds that one text may have. There are four signals.
const PARTS_MAX: usize = 64;
const MILLIONTHS_PER_PERCENT: f64 = 10_000.0;

/// Why a text is no list of thresholds.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ThresholdError {
    /// A part has no `<`.
    #[error("{0:?} is no threshold: write it as SIGNAL<QUANTITY, memory.available<100Mi for instance")]
    Form(String),
    /// A signal that this node does not watch.
    #[error("{part:?}: {signal:?} is not watched by this node; signals are {known}")]
    Signal {
        /// The part.
        part: String,
        /// The unknown signal.
        signal: String,
        /// The signals that exist.
        known: String,
    },
    /// A share that is none.
    #[error("{part:?}: {share:?} is no share: write 0% to 100%")]
    Share {
        /// The part.
        part: String,
        /// The invalid share.
        share: String,
    },
    /// An amount that is none.
    #[error(
        "{part:?}: {amount:?} is no amount: write a share, 10% for instance, or a quantity, 100Mi for instance, of 0 or more"
    )]
    Amount {
        /// The part.
        part: String,
        /// The invalid amount.
        amount: String,
    },
    /// A signal that was given before.
    #[error("{part:?}: {signal} has a threshold already: give it once")]
    Twice {
        /// The part.
        part: String,
        /// The signal.
        signal: &'static str,
    },
    /// Too many parts.
    #[error("there are more than {PARTS_MAX} thresholds")]
    TooMany,
}

/// Reads thresholds as kubelet reads `--eviction-hard`. A signal that is not named has none; 0, `0%` and `100%` take one away.
///
/// # Errors
/// When the text is no such list: which part of it is wrong, and what it could be.
pub fn parse_eviction_hard(text: &str) -> Result<Thresholds, ThresholdError> {
    let mut seen = BTreeMap::new();
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    for (number, part) in parts.enumerate() {
        if number >= PARTS_MAX {
            return Err(ThresholdError::TooMany);
        }
        let (signal, amount) = part.split_once('<').ok_or_else(|| ThresholdError::Form(part.to_owned()))?;
        let signal = find_signal(part, signal.trim())?;
        let threshold = threshold(part, amount.trim())?;
        if seen.insert(signal, threshold).is_some() {
            return Err(ThresholdError::Twice { part: part.to_owned(), signal: signal.name() });
        }
    }
    let set = seen.into_iter().filter_map(|(signal, threshold)| Some((signal, threshold?)));
    Ok(Thresholds(set.collect()))
}

fn find_signal(part: &str, name: &str) -> Result<Signal, ThresholdError> {
    Signal::ALL.into_iter().find(|signal| signal.name() == name).ok_or_else(|| {
        let known: Vec<&str> = Signal::ALL.iter().map(|signal| signal.name()).collect();
        ThresholdError::Signal { part: part.to_owned(), signal: name.to_owned(), known: known.join(", ") }
    })
}

/// `None`: there is none.
fn threshold(part: &str, text: &str) -> Result<Option<Threshold>, ThresholdError> {
    if let Some(share) = text.strip_suffix('%') {
        let wrong = || ThresholdError::Share { part: part.to_owned(), share: text.to_owned() };
        let percent: f64 = share.trim().parse().map_err(|_| wrong())?;
        if !(0.0..=100.0).contains(&percent) {
            return Err(wrong());
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is 0 to 1,000,000")]
        let millionths = (percent * MILLIONTHS_PER_PERCENT).round() as u32;
        return Ok((1..1_000_000).contains(&millionths).then(|| Threshold::millionths(millionths)));
    }
    let wrong = || ThresholdError::Amount { part: part.to_owned(), amount: text.to_owned() };
    let amount = Quantity::parse(text).map_err(|_| wrong())?;
    let amount = amount.value_i64_rounded_up().and_then(|amount| u64::try_from(amount).ok());
    let amount = amount.ok_or_else(wrong)?;
    Ok((amount > 0).then(|| Threshold::amount(amount)))
}
