//! Trees from whatever can be serialized.

use serde::ser::{
    self, Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant,
};
use serde_json::{Error, value::RawValue};

use crate::{List, Map, Text, Value, verbatim};

/// How `serde_json` names text that is JSON already: a structure with this one field.
const RAW: &str = "$serde_json::private::RawValue";

/// A value that says what another type does.
///
/// # Errors
/// When the type cannot be said in JSON: a map whose keys are neither texts, numbers nor names of variants, or an error of its own.
pub fn to_value(value: impl Serialize) -> Result<Value, Error> {
    value.serialize(Maker)
}

/// The same for what is known to have a tree: whatever stands in [`json!`](crate::json).
#[doc(hidden)]
pub fn made(value: impl Serialize) -> Value {
    let made = to_value(value);
    debug_assert!(made.is_ok(), "{made:?}");
    made.unwrap_or_default()
}

struct Maker;

type Made = Result<Value, Error>;

impl ser::Serializer for Maker {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = Items;
    type SerializeTuple = Items;
    type SerializeTupleStruct = Items;
    type SerializeTupleVariant = Named<Items>;
    type SerializeMap = Fields;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Named<Fields>;

    fn serialize_bool(self, value: bool) -> Made {
        Ok(value.into())
    }

    fn serialize_i8(self, value: i8) -> Made {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Made {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Made {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Made {
        Ok(value.into())
    }

    fn serialize_u8(self, value: u8) -> Made {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Made {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Made {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Made {
        Ok(value.into())
    }

    fn serialize_f32(self, value: f32) -> Made {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Made {
        Ok(value.into())
    }

    fn serialize_char(self, value: char) -> Made {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Made {
        Ok(value.into())
    }

    fn serialize_bytes(self, value: &[u8]) -> Made {
        Ok(value.iter().map(|byte| Value::from(u64::from(*byte))).collect())
    }

    fn serialize_none(self) -> Made {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Made {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Made {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Made {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Made {
        Ok(variant.into())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Made {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Made {
        named(variant, value.serialize(Self)?)
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Items, Error> {
        // The length that a type claims does not decide how much memory is allocated.
        Ok(Items(Vec::with_capacity(length.unwrap_or_default().min(1_024))))
    }

    fn serialize_tuple(self, length: usize) -> Result<Items, Error> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Result<Items, Error> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Named<Items>, Error> {
        Ok(Named { variant, inner: self.serialize_seq(Some(length))? })
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Fields, Error> {
        Ok(Fields { fields: Vec::with_capacity(length.unwrap_or_default().min(1_024)), name: None })
    }

    fn serialize_struct(self, _: &'static str, length: usize) -> Result<Fields, Error> {
        self.serialize_map(Some(length))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Named<Fields>, Error> {
        Ok(Named { variant, inner: self.serialize_map(Some(length))? })
    }
}

fn named(variant: &'static str, value: Value) -> Made {
    Ok(Value::Object(Map::from_iter([(variant, value)])))
}

/// A list in the making.
struct Items(Vec<Value>);

impl Items {
    fn push(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        self.0.push(value.serialize(Maker)?);
        Ok(())
    }

    fn value(self) -> Value {
        Value::Array(List::from(self.0))
    }
}

/// A map in the making: its fields, and the name of the one that is next.
struct Fields {
    fields: Vec<(Text, Value)>,
    name: Option<Text>,
}

impl Fields {
    fn push(&mut self, name: Text, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        self.fields.push((name, value.serialize(Maker)?));
        Ok(())
    }

    fn value(self) -> Value {
        Value::Object(Map::from(self.fields))
    }
}

/// A variant with what it holds.
struct Named<T> {
    variant: &'static str,
    inner: T,
}

impl SerializeSeq for Items {
    type Ok = Value;
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.push(value)
    }

    fn end(self) -> Made {
        Ok(self.value())
    }
}

impl SerializeTuple for Items {
    type Ok = Value;
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.push(value)
    }

    fn end(self) -> Made {
        Ok(self.value())
    }
}

impl SerializeTupleStruct for Items {
    type Ok = Value;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.push(value)
    }

    fn end(self) -> Made {
        Ok(self.value())
    }
}

impl SerializeTupleVariant for Named<Items> {
    type Ok = Value;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.inner.push(value)
    }

    fn end(self) -> Made {
        named(self.variant, self.inner.value())
    }
}

impl SerializeMap for Fields {
    type Ok = Value;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, name: &T) -> Result<(), Error> {
        self.name = Some(match name.serialize(Maker)? {
            Value::String(name) => name,
            number @ (Value::Number(_) | Value::Bool(_)) => number.to_string().into(),
            Value::Null | Value::Array(_) | Value::Object(_) | Value::Encoded(_) => {
                return Err(Error::custom("key must be a string"));
            }
        });
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let name = self.name.take().ok_or_else(|| Error::custom("a value without a key"))?;
        self.push(name, value)
    }

    fn end(self) -> Made {
        Ok(self.value())
    }
}

impl SerializeStruct for Fields {
    type Ok = Value;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.push(name.into(), value)
    }

    fn end(self) -> Made {
        match &self.fields[..] {
            [(name, Value::String(text))] if name == RAW => {
                verbatim(serde_json::from_str::<&RawValue>(text)?)
            }
            _ => Ok(self.value()),
        }
    }
}

impl SerializeStructVariant for Named<Fields> {
    type Ok = Value;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        self.inner.push(name.into(), value)
    }

    fn end(self) -> Made {
        named(self.variant, self.inner.value())
    }
}
