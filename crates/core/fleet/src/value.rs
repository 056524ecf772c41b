//! The values of a device under keys: attributes and capacities.

use alloc::{sync::Arc, vec::Vec};

use lazaret_model::{AttrValue, CapacityValue, Quantity, RequestPolicy};

use crate::{
    fingerprint::{exact, of_hash},
    layout::{Layout, Slot},
    sweeping::Sweeping,
    vocabulary::{SHARED_LEN_MAX, Vocabulary},
};

/// Kinds of content in prints.
const INT: u8 = 1;
const BOOL: u8 = 2;
const QUANTITY: u8 = 3;
/// Strings of less than 16 bytes, the length added.
const STRING: u8 = 0x40;
/// Below this every whole number is a float, however it is computed.
const FLOAT_EXACT: u64 = 1 << 53;

/// A value that a [`Table`](crate::table::Table) can hold.
pub(crate) trait Value: Clone {
    /// Nothing that anybody can ask tells the two apart.
    fn same(&self, other: &Self) -> bool;
    /// Whether devices of other slices may well have the same.
    fn is_common(&self) -> bool;
    /// The same value, sharing what others have already: `above` may well be the same.
    fn shared(&self, above: Option<&Self>, vocabulary: &mut Vocabulary) -> Self;
    /// The value as CEL sees it, as a number: equal for two values exactly where CEL cannot distinguish them.
    fn print(&self) -> u128;
    /// Where the slots of a layout that may be known already are put together.
    fn slots(vocabulary: &mut Vocabulary) -> &mut Vec<Slot<Self>>;
    /// Where layouts of tables of such values are kept.
    fn layouts(vocabulary: &mut Vocabulary) -> &mut Sweeping<Arc<Layout<Self>>>;
}

impl Value for AttrValue {
    fn same(&self, other: &Self) -> bool {
        self == other
    }

    fn is_common(&self) -> bool {
        match self {
            Self::String(text) => text.len() <= SHARED_LEN_MAX,
            Self::Bool(_) | Self::Version(_) | Self::Unsupported => true,
            Self::Int(_) | Self::Ints(_) | Self::Bools(_) | Self::Strings(_) | Self::Versions(_) => false,
        }
    }

    fn shared(&self, above: Option<&Self>, vocabulary: &mut Vocabulary) -> Self {
        match (self, above) {
            // Neighbours often have the same, and then it need not be looked for.
            (Self::String(text), Some(Self::String(above))) if text == above => Self::String(above.clone()),
            (Self::String(text), _) if text.len() <= SHARED_LEN_MAX => Self::String(vocabulary.text(text)),
            (Self::Int(number), _) => Self::Int(*number),
            (
                Self::String(_)
                | Self::Bool(_)
                | Self::Version(_)
                | Self::Ints(_)
                | Self::Bools(_)
                | Self::Strings(_)
                | Self::Versions(_)
                | Self::Unsupported,
                _,
            ) => self.clone(),
        }
    }

    fn slots(vocabulary: &mut Vocabulary) -> &mut Vec<Slot<Self>> {
        &mut vocabulary.attribute_slots
    }

    fn layouts(vocabulary: &mut Vocabulary) -> &mut Sweeping<Arc<Layout<Self>>> {
        &mut vocabulary.attribute_layouts
    }

    fn print(&self) -> u128 {
        match self {
            Self::Int(number) => exact(INT, u128::from(number.cast_unsigned())),
            Self::Bool(truth) => exact(BOOL, u128::from(*truth)),
            Self::String(text) if text.len() < 16 => {
                let mut bytes = [0; 16];
                bytes[..text.len()].copy_from_slice(text.as_bytes());
                // The last byte is free: it tells the length, which a zero at the end of the text would hide.
                exact(STRING + u8::try_from(text.len()).unwrap_or(0), u128::from_le_bytes(bytes))
            }
            Self::String(_)
            | Self::Version(_)
            | Self::Ints(_)
            | Self::Bools(_)
            | Self::Strings(_)
            | Self::Versions(_)
            | Self::Unsupported => of_hash(self),
        }
    }
}

impl Value for CapacityValue {
    fn same(&self, other: &Self) -> bool {
        self.value.is_identical(&other.value)
            && match (&self.policy, &other.policy) {
                (None, None) => true,
                (Some(mine), Some(theirs)) => same_policy(mine, theirs),
                (None, Some(_)) | (Some(_), None) => false,
            }
    }

    fn is_common(&self) -> bool {
        true
    }

    fn shared(&self, _: Option<&Self>, _: &mut Vocabulary) -> Self {
        self.clone()
    }

    fn slots(vocabulary: &mut Vocabulary) -> &mut Vec<Slot<Self>> {
        &mut vocabulary.capacity_slots
    }

    fn layouts(vocabulary: &mut Vocabulary) -> &mut Sweeping<Arc<Layout<Self>>> {
        &mut vocabulary.capacity_layouts
    }

    fn print(&self) -> u128 {
        // CEL can tell 1000m from 1: see `isInteger`.
        let held = self.value.as_i64_if_held_so();
        match held.filter(|number| number.unsigned_abs() < FLOAT_EXACT) {
            Some(number) => exact(QUANTITY, u128::from(number.cast_unsigned())),
            None => of_hash(&(&self.value, held, self.value.approximate_f64().to_bits())),
        }
    }
}

fn same_policy(left: &RequestPolicy, right: &RequestPolicy) -> bool {
    let same = |a: &Option<Quantity>, b: &Option<Quantity>| match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a.is_identical(b),
        (None, Some(_)) | (Some(_), None) => false,
    };
    same(&left.default, &right.default)
        && left.valid_values.len() == right.valid_values.len()
        && left.valid_values.iter().zip(&right.valid_values).all(|(a, b)| a.is_identical(b))
        && match (&left.valid_range, &right.valid_range) {
            (None, None) => true,
            (Some(a), Some(b)) => same(&a.min, &b.min) && same(&a.max, &b.max) && same(&a.step, &b.step),
            (None, Some(_)) | (Some(_), None) => false,
        }
}
