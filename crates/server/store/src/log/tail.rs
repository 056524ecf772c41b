//! Torn or damaged? The judgement over bytes at the end of the last segment that are not a whole frame.
//!
//! A group is synced before the next is written, so a crash leaves at most one frame incomplete, and nothing after
//! it. A crash leaves any set of the sectors of that frame; a sector that did not reach the disk is missing
//! (the file ends before it) or reads as zeros, since log files only ever grow. Everything else is damage: then an
//! acknowledged commit may be lost, and opening must fail instead of forgetting it.
//!
//! One case stays undecidable: damage to the very last frame that looks exactly like lost sectors.

use super::frame::{self, FrameHeader, MAGIC};

/// The smallest unit in which disks write.
const SECTOR_BYTES: u64 = 512;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// A commit that was never acknowledged: cut it off.
    Torn,
    /// Something that no crash explains.
    Damaged(&'static str),
}

/// Judges `rest`, the bytes from `offset` to the end of the file, where the frame numbered `seq` should begin.
pub(super) fn classify_tail(rest: &[u8], offset: u64, seq: u64) -> Tail {
    if is_zero(rest) {
        return Tail::Torn;
    }
    let Some(header) = FrameHeader::decode(rest) else {
        return judge_without_header(rest, offset, seq);
    };
    let Some(frame) = usize::try_from(header.frame_bytes()).ok().and_then(|len| rest.get(..len)) else {
        return Tail::Torn;
    };
    if !is_zero(&rest[frame.len()..]) {
        Tail::Damaged("a frame's payload does not match its checksum, and more was written after it")
    } else if has_lost_sector(frame, offset) {
        Tail::Torn
    } else {
        Tail::Damaged(
            "the last frame's payload does not match its checksum, though none of its sectors is missing",
        )
    }
}

fn judge_without_header(rest: &[u8], offset: u64, seq: u64) -> Tail {
    let Some(header) = rest.get(..frame::HEADER_BYTES) else {
        return Tail::Torn;
    };
    if !has_lost_sector_in(rest, offset, header.len()) {
        return Tail::Damaged("a frame's header does not match its checksum");
    }
    // The header's sector is missing. If a later commit is there, this one had been acknowledged.
    let later = rest
        .windows(MAGIC.len())
        .enumerate()
        .filter(|(_, window)| *window == MAGIC)
        .filter_map(|(at, _)| FrameHeader::decode(&rest[at..]))
        .any(|header| header.seq > seq);
    if later { Tail::Damaged("a frame is missing, and later ones are there") } else { Tail::Torn }
}

fn has_lost_sector(bytes: &[u8], offset: u64) -> bool {
    has_lost_sector_in(bytes, offset, bytes.len())
}

/// Whether a sector that overlaps the first `len` bytes is zero, as far as it lies within `bytes`.
fn has_lost_sector_in(bytes: &[u8], offset: u64, len: usize) -> bool {
    let mut start = 0;
    while start < len {
        let to_boundary = SECTOR_BYTES - (offset + start as u64) % SECTOR_BYTES;
        let end = usize::try_from(to_boundary).map_or(bytes.len(), |step| (start + step).min(bytes.len()));
        if is_zero(&bytes[start..end]) {
            return true;
        }
        start = end;
    }
    false
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::super::frame::FrameKind;
    use super::super::seal::Cipher;
    use super::*;

    fn frames(count: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for seq in 7..7 + count {
            frame::encode(&mut bytes, &Cipher::Plain, FrameKind::Commit, seq, 100, |payload| {
                payload.resize(payload.len() + 1500, b'x')
            });
        }
        bytes
    }

    #[test]
    fn cut_anywhere_is_torn() {
        let whole = frames(1);
        for len in 0..whole.len() {
            assert_eq!(classify_tail(&whole[..len], 1000, 7), Tail::Torn, "cut at {len}");
        }
    }

    #[test]
    fn any_lost_sectors_are_torn() {
        for offset in [0_u64, 1, 56, 500, 511, 490, 1024] {
            let whole = frames(1);
            let sector = |at: usize| (offset + at as u64) / SECTOR_BYTES;
            let sectors = sector(whole.len() - 1) - sector(0) + 1;
            for lost in 1_u32..1 << sectors {
                let mut torn = whole.clone();
                for (at, byte) in torn.iter_mut().enumerate() {
                    if lost & (1 << (sector(at) - sector(0))) != 0 {
                        *byte = 0;
                    }
                }
                assert_eq!(classify_tail(&torn, offset, 7), Tail::Torn, "offset {offset} lost {lost:b}");
            }
        }
    }

    #[test]
    fn any_flipped_bit_is_damage() {
        for offset in [0_u64, 300, 511] {
            let whole = frames(1);
            for bit in 0..whole.len() * 8 {
                let mut flipped = whole.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(
                    matches!(classify_tail(&flipped, offset, 7), Tail::Damaged(_)),
                    "offset {offset} bit {bit}"
                );
            }
        }
    }

    #[test]
    fn lost_sectors_with_commits_after_them_are_damage() {
        let mut bytes = frames(2);
        bytes[..600].fill(0);
        assert!(matches!(classify_tail(&bytes, 0, 7), Tail::Damaged(_)));
        let mut bytes = frames(2);
        bytes[512..1024].fill(0);
        assert!(matches!(classify_tail(&bytes, 0, 7), Tail::Damaged(_)));
    }
}
