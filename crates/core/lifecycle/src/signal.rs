//! Signals: what was noticed of a device.

use lazaret_cel::{Datum, Shape};
use lazaret_model::{DeviceId, Text, Timestamp, named};

/// The key of the signal of a device that is not published any more.
pub const PUBLISHED_KEY: &str = "published";

/// Something that was noticed of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// The device.
    pub device: DeviceId,
    /// The key, such as `gpu.example.com/ecc`.
    pub key: Text,
    /// The value, such as `48`; may be empty.
    pub value: Text,
    /// The source of the signal.
    pub source: Source,
    /// When it was noticed.
    pub at: Timestamp,
    /// Whether it lasts until it is lowered. Otherwise it is over as soon as it was noticed.
    pub lasts: bool,
    /// For people.
    pub message: Text,
}

named! {
    /// From where a signal comes, by the name that a policy knows.
    pub enum Source {
        /// A taint that a driver published.
        Taint,
        /// Health in the status of a pod.
        Health,
        /// An attribute of the device.
        Attribute,
        /// A condition of the node.
        Node,
        /// The driver, its slices or a part of its pool are gone.
        Vanished,
        /// An alert.
        Alert,
        /// A person.
        Person,
    }
}

/// The fields of `signal` in an expression, in order.
const FIELDS: [&str; 7] = ["driver", "pool", "device", "key", "value", "source", "message"];

/// The fields of a signal that an expression can use.
pub(crate) fn shape() -> Shape {
    Shape::object(FIELDS.map(|field| (field.into(), Shape::text())))
}

impl Signal {
    /// As an expression sees it.
    pub(crate) fn datum(&self) -> Datum {
        let values = [
            &*self.device.driver,
            &*self.device.pool,
            &*self.device.device,
            &*self.key,
            &*self.value,
            self.source.name(),
            &*self.message,
        ];
        Datum::map(FIELDS.into_iter().map(Into::into).zip(values.map(Datum::text)))
    }
}
