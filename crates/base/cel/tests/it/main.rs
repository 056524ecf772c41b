//! Proofs from outside: tables of facts, a second engine, and properties of any text.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod independent_engine;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod support;
