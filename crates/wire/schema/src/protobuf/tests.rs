use super::*;
use crate::builtin;

/// A tag and its bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    out.extend_from_slice(bytes);
    out
}

fn varint(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn decode(ty: &str, bytes: &[u8]) -> Result<Value, ProtobufError> {
    decode_message(builtin(), builtin().find(ty).unwrap(), bytes)
}

#[test]
fn an_envelope_opens() {
    let type_meta = [field(1, b"v1"), field(2, b"Pod")].concat();
    let bytes = [MAGIC, &field(1, &type_meta), &field(2, b"xyz")].concat();
    let envelope = open_envelope(&bytes).unwrap();
    assert_eq!((envelope.api_version, envelope.kind, envelope.raw), ("v1", "Pod", &b"xyz"[..]));
    assert_eq!(open_envelope(b"{}"), Err(ProtobufError::NotEnveloped));
    assert_eq!(open_envelope(b"k8s\0\x0a\x7f"), Err(ProtobufError::Truncated));
}

#[test]
fn a_namespace_as_kubectl_sends_it() {
    let meta = [field(1, b"play"), field(3, b""), field(5, b""), varint(7, 0), field(8, b"")].concat();
    let bytes = [field(1, &meta), field(2, b""), field(3, &field(1, b""))].concat();
    let value = decode("core/v1.Namespace", &bytes).unwrap();
    assert_eq!(value["metadata"], json!({"name": "play"}));
    assert_eq!(value["spec"].as_object().map(Map::len).unwrap_or_default(), 0);
}

#[test]
fn values_that_are_messages_become_what_json_has_for_them() {
    let tolerations = field(5, &varint(5, 30)[..]);
    let result =
        [field(1, b"r"), field(2, b"d"), field(3, b"p"), field(4, b"x"), tolerations[..0].to_vec()].concat();
    let capacity = [field(1, b"memory"), field(2, &field(1, b"40Gi"))].concat();
    let with_capacity = [result, field(10, &capacity)].concat();
    let value = decode("resource/v1.DeviceRequestAllocationResult", &with_capacity).unwrap();
    assert_eq!(
        value,
        json!({"request": "r", "driver": "d", "pool": "p", "device": "x", "consumedCapacity": {"memory": "40Gi"}})
    );

    let condition =
        [field(1, b"Ready"), field(2, b"True"), field(4, &varint(1, 60)), field(5, b"R")].concat();
    let value = decode("meta/v1.Condition", &condition).unwrap();
    assert_eq!(value["lastTransitionTime"], "1970-01-01T00:01:00Z");
    assert_eq!(value["message"], "", "written even when empty");
}

#[test]
fn inline_structs_stand_flat_and_raw_json_is_json() {
    let opaque = [field(1, b"gpu.example.com"), field(2, &field(1, br#"{"a":1}"#))].concat();
    let bytes = [field(1, b"r"), field(2, &field(1, &opaque))].concat();
    let value = decode("resource/v1.DeviceClaimConfiguration", &bytes).unwrap();
    assert_eq!(
        value,
        json!({"requests": ["r"], "opaque": {"driver": "gpu.example.com", "parameters": {"a": 1}}})
    );
}

#[test]
fn pointers_keep_zero_and_plain_fields_drop_it() {
    let value = decode("resource/v1.DeviceToleration", &[field(1, b""), varint(5, 0)].concat()).unwrap();
    assert_eq!(value, json!({"tolerationSeconds": 0}));
    let attribute = decode("resource/v1.DeviceAttribute", &varint(2, 0)).unwrap();
    assert_eq!(attribute, json!({"int": 0}));
}

#[test]
fn numbers_nobody_knows_are_skipped_and_broken_bytes_refused() {
    assert_eq!(
        decode("resource/v1.DeviceToleration", &[field(15, b"new"), field(1, b"k")].concat()).unwrap(),
        json!({"key": "k"})
    );
    assert_eq!(
        decode("resource/v1.DeviceToleration", &varint(1, 3)),
        Err(ProtobufError::WireType { field: "key".into() })
    );
    assert_eq!(
        decode("resource/v1.DeviceToleration", &field(1, &[0xff])),
        Err(ProtobufError::Text { field: "key".into() })
    );
    assert_eq!(decode("resource/v1.DeviceToleration", &[0x0a, 9, 1]), Err(ProtobufError::Truncated));
}

#[test]
fn durations_read_as_go_writes_them() {
    for (nanos, text) in [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (300_000_000, "300ms"),
        (1_000_000_000, "1s"),
        (90_000_000_000, "1m30s"),
        (3_600_000_000_000, "1h0m0s"),
        (-2_500_000_000, "-2.5s"),
    ] {
        assert_eq!(duration::to_text(nanos), text);
    }
}

#[test]
fn a_small_message_does_not_become_a_large_object() {
    // Two bytes for each status of a container, which JSON says in a hundred.
    let pod = |count: usize| {
        let statuses = field(8, b"").repeat(count);
        let mut bytes = vec![3 << 3 | 2];
        let mut length = statuses.len();
        while length > 0x7f {
            bytes.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        bytes.push(u8::try_from(length).unwrap());
        bytes.extend(statuses);
        decode("core/v1.Pod", &bytes)
    };
    let few = pod(10).unwrap();
    assert_eq!(few["status"]["containerStatuses"].as_array().map(Vec::len), Some(10));
    assert_eq!(pod(VALUES_MAX), Err(ProtobufError::TooMany));
}

/// A tag and its bytes, for numbers beyond 15 and for more than 127 bytes.
fn large(number: u32, bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), u64::from(number << 3 | 2));
    for value in [rest, bytes.len() as u64] {
        rest = value;
        while rest >= 0x80 {
            out.push(u8::try_from(rest & 0x7f | 0x80).unwrap());
            rest >>= 7;
        }
        out.push(u8::try_from(rest).unwrap());
    }
    out.extend_from_slice(bytes);
    out
}

fn large_varint(number: u32, value: u8) -> Vec<u8> {
    let mut out = large(number, b"");
    let end = out.len() - 1;
    // The same tag for another form of value.
    out[0] &= !2;
    out[end] = value;
    out
}

fn large_double(number: u8, value: f64) -> Vec<u8> {
    [&[number << 3 | 1][..], &value.to_le_bytes()].concat()
}

#[test]
fn the_schema_of_a_definition_is_read_with_all_that_is_in_it() {
    let text = field(5, b"string");
    let entry =
        |name: &str, schema: &[u8]| large(29, &[field(1, name.as_bytes()), large(2, schema)].concat());
    let rule = [field(1, b"self > 0"), field(2, b"")].concat();
    let bounded = [
        field(5, b"integer"),
        large_double(9, 10.0),
        large_double(11, 0.5),
        large(44, &rule),
        field(8, &field(1, b"7")),
    ]
    .concat();
    let list = [field(5, b"array"), large(24, &field(1, &text)), large(42, b"set")].concat();
    let map = [field(5, b"object"), large(30, &[varint(1, 1), large(2, &text)].concat())].concat();
    let free = [field(5, b"object"), large(30, &varint(1, 1)), large_varint(38, 1)].concat();
    let closed = [field(5, b"object"), large(30, &varint(1, 0))].concat();
    let either =
        [large(26, &text), large(26, &field(5, b"integer")), large(20, &field(1, br#""a""#))].concat();
    let properties = [
        ("bounded", bounded),
        ("closed", closed),
        ("either", either),
        ("free", free),
        ("list", list),
        ("map", map),
    ];
    let all: Vec<u8> = properties.iter().flat_map(|(name, schema)| entry(name, schema)).collect();
    let root = [field(5, b"object"), all, large(23, b"list")].concat();
    let version =
        [field(1, b"v1"), varint(2, 1), varint(3, 1), large(4, &large(1, &root)), field(5, &field(1, b""))]
            .concat();
    let read = decode("apiextensions/v1.CustomResourceDefinitionVersion", &version).unwrap();
    assert_eq!(read["subresources"], json!({"status": {}}));
    assert_eq!(
        read["schema"]["openAPIV3Schema"],
        json!({"type": "object", "required": ["list"], "properties": {
            "bounded": {"type": "integer", "maximum": 10, "minimum": 0.5, "default": 7, "x-kubernetes-validations": [{"rule": "self > 0"}]},
            "closed": {"type": "object", "additionalProperties": false},
            "either": {"oneOf": [{"type": "string"}, {"type": "integer"}], "enum": ["a"]},
            "free": {"type": "object", "additionalProperties": true, "x-kubernetes-preserve-unknown-fields": true},
            "list": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        }})
    );
}

#[test]
fn a_schema_that_is_nested_too_deep_is_refused() {
    let mut schema = field(5, b"object");
    for _ in 0..DEPTH_MAX {
        schema = large(28, &schema);
    }
    assert_eq!(
        decode("apiextensions/v1.CustomResourceValidation", &large(1, &schema)),
        Err(ProtobufError::TooDeep)
    );
}
