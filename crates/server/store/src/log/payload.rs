//! The payload of frames: changes of a commit, items of a snapshot.

use std::sync::Arc;

use bytes::Bytes;
use lazaret_storage::{Item, Key};

use super::frame::u32_len;
use super::header::{u32_at, u64_at};
use crate::engine::GroupCommit;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const COMPACT: u8 = 3;

/// One record of a commit. Changes take the revisions after the frame's base, one each, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    Put(&'a [u8], &'a [u8]),
    Delete(&'a [u8]),
    /// The history up to here is forgotten; takes no revision.
    Compact(u64),
}

pub(super) fn encode_commit(out: &mut Vec<u8>, group: &GroupCommit<'_>) {
    for event in group.events {
        match &event.new {
            Some(item) => {
                out.push(PUT);
                put_bytes(out, &event.key);
                put_bytes(out, &item.value);
            }
            None => {
                out.push(DELETE);
                put_bytes(out, &event.key);
            }
        }
    }
    if let Some(revision) = group.compact {
        out.push(COMPACT);
        out.extend_from_slice(&revision.to_le_bytes());
    }
}

/// Takes the records of a commit one by one; `None` in the middle of the input means that it does not decode.
pub(super) fn next_record<'a>(input: &mut &'a [u8]) -> Option<Record<'a>> {
    let (tag, rest) = input.split_first()?;
    *input = rest;
    match *tag {
        PUT => Some(Record::Put(take_bytes(input)?, take_bytes(input)?)),
        DELETE => Some(Record::Delete(take_bytes(input)?)),
        COMPACT => Some(Record::Compact(take_u64(input)?)),
        _ => None,
    }
}

pub(super) fn encode_item(out: &mut Vec<u8>, item: &Item) {
    out.extend_from_slice(&item.created.to_le_bytes());
    out.extend_from_slice(&item.modified.to_le_bytes());
    put_bytes(out, &item.key);
    put_bytes(out, &item.value);
}

/// Takes the items of a snapshot one by one; `None` in the middle of the input means that it does not decode.
pub(super) fn next_item(input: &mut &[u8]) -> Option<Arc<Item>> {
    let created = take_u64(input)?;
    let modified = take_u64(input)?;
    let key = Key::from(take_bytes(input)?);
    // Copied, so that one small item does not keep the buffer of a whole frame alive.
    let value = Bytes::copy_from_slice(take_bytes(input)?);
    Some(Arc::new(Item { key, value, created, modified }))
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&u32_len(bytes.len()).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn take_bytes<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = u32_at(take(input, 4)?, 0);
    take(input, len as usize)
}

fn take_u64(input: &mut &[u8]) -> Option<u64> {
    Some(u64_at(take(input, 8)?, 0))
}

fn take<'a>(input: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(taken)
}
