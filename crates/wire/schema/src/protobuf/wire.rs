//! The wire format itself: tags, varints, lengths.

use super::ProtobufError;

/// One encoded value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// Reads the fields of a message one after the other.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field's number and value; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| ProtobufError::Truncated)?;
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Truncated)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.array()?)),
            // Groups have not been used since before Kubernetes existed.
            _ => return Err(ProtobufError::Truncated),
        };
        Ok(Some((number, wire)))
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ProtobufError::Truncated)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtobufError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }
}

impl<'a> Wire<'a> {
    pub(super) const EMPTY: Self = Self::Bytes(&[]);

    pub(super) fn bytes(self, path: &str) -> Result<&'a [u8], ProtobufError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Varint(_) | Self::Fixed64(_) | Self::Fixed32(_) => {
                Err(ProtobufError::WireType { field: path.to_owned() })
            }
        }
    }

    pub(super) fn text(self, path: &str) -> Result<&'a str, ProtobufError> {
        std::str::from_utf8(self.bytes(path)?).map_err(|_| ProtobufError::Text { field: path.to_owned() })
    }

    /// Negative numbers travel as ten bytes of two's complement, whatever their width.
    #[allow(clippy::cast_possible_wrap, reason = "two's complement is what the format says")]
    pub(super) fn integer(self, path: &str) -> Result<i64, ProtobufError> {
        match self {
            Self::Varint(value) | Self::Fixed64(value) => Ok(value as i64),
            Self::Fixed32(value) => Ok(i64::from(value as i32)),
            // An absent value in a map's entry.
            Self::Bytes([]) => Ok(0),
            Self::Bytes(_) => Err(ProtobufError::WireType { field: path.to_owned() }),
        }
    }

    pub(super) fn double(self, path: &str) -> Result<f64, ProtobufError> {
        match self {
            Self::Fixed64(bits) => Ok(f64::from_bits(bits)),
            Self::Bytes([]) => Ok(0.0),
            Self::Varint(_) | Self::Fixed32(_) | Self::Bytes(_) => {
                Err(ProtobufError::WireType { field: path.to_owned() })
            }
        }
    }

    /// The values of a repeated field: one, or several packed together if they are varints.
    pub(super) fn unpacked(self, varints: bool) -> Result<Vec<Self>, ProtobufError> {
        let Self::Bytes(bytes) = self else { return Ok(vec![self]) };
        if !varints {
            return Ok(vec![self]);
        }
        let mut reader = Reader::new(bytes);
        let mut values = Vec::new();
        while !reader.rest.is_empty() {
            values.push(Self::Varint(reader.varint()?));
        }
        Ok(values)
    }
}
