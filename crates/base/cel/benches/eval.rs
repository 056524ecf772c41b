//! Time per compilation and per evaluation of expressions as people write them.
#![expect(clippy::unwrap_used, reason = "a benchmark: its input is known")]

use divan::{Bencher, black_box};
use lazaret_cel::{Bound, Env, SimpleDevice, compile};
use lazaret_model::{AttrNames, AttrValue, Quantity, VersionValue};

const DRIVER: &str = r#"device.driver == "gpu.example.com""#;
const STRING_AND_CAPACITY: &str = r#"device.attributes["gpu.example.com"].model == "a100" && device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("40Gi"))"#;
const MATCHES: &str = r#"device.attributes["gpu.example.com"].product.matches("^nvidia-[a-z]+[0-9]{2,4}$")"#;
const TEN_TERMS: &str = r#"device.driver == "gpu.example.com"
 && device.attributes["gpu.example.com"].model == "a100"
 && device.attributes["gpu.example.com"].index >= 0
 && device.attributes["gpu.example.com"].ecc
 && device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.0.0"))
 && device.attributes["gpu.example.com"].product.startsWith("nvidia")
 && device.attributes["gpu.example.com"].?numa.orValue(0) == 0
 && has(device.attributes["gpu.example.com"].model)
 && "memory" in device.capacity["gpu.example.com"]
 && device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0"#;
const BIND: &str =
    r#"cel.bind(gpu, device.attributes["gpu.example.com"], gpu.model == "a100" && gpu.ecc && gpu.index < 8)"#;
const LIST: &str = r#"device.attributes["gpu.example.com"].links.exists(link, link > 2)"#;

fn main() {
    divan::main();
}

fn device(names: &mut AttrNames) -> SimpleDevice {
    let attributes = [
        ("model", AttrValue::String("a100".into())),
        ("product", AttrValue::String("nvidia-ampere100".into())),
        ("index", AttrValue::Int(3)),
        ("ecc", AttrValue::Bool(true)),
        ("version", AttrValue::Version(VersionValue::new("1.2.3"))),
        ("links", AttrValue::Ints([0, 1, 2, 3].as_slice().into())),
    ];
    let capacity = [("memory", Quantity::parse("80Gi").unwrap())];
    SimpleDevice::new("gpu.example.com", attributes, capacity, false, names)
}

fn evaluate(bencher: Bencher<'_, '_>, expression: &str) {
    let mut names = AttrNames::default();
    let device = device(&mut names);
    let bound: Bound = compile(expression, &Env::stored()).unwrap().bind(&names);
    bencher.bench_local(|| black_box(&bound).matches(black_box(&device)));
}

#[divan::bench]
fn eval_driver(bencher: Bencher<'_, '_>) {
    evaluate(bencher, DRIVER);
}

#[divan::bench]
fn eval_string_and_capacity(bencher: Bencher<'_, '_>) {
    evaluate(bencher, STRING_AND_CAPACITY);
}

#[divan::bench]
fn eval_matches(bencher: Bencher<'_, '_>) {
    evaluate(bencher, MATCHES);
}

#[divan::bench]
fn eval_ten_terms(bencher: Bencher<'_, '_>) {
    evaluate(bencher, TEN_TERMS);
}

#[divan::bench]
fn eval_bind(bencher: Bencher<'_, '_>) {
    evaluate(bencher, BIND);
}

#[divan::bench]
fn eval_list_exists(bencher: Bencher<'_, '_>) {
    evaluate(bencher, LIST);
}

#[divan::bench(args = [DRIVER, STRING_AND_CAPACITY, TEN_TERMS])]
fn compile_expression(bencher: Bencher<'_, '_>, expression: &str) {
    bencher.bench_local(|| compile(black_box(expression), &Env::stored()));
}
