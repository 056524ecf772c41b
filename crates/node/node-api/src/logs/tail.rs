//! Where the last lines of a file begin.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeek, AsyncSeekExt, SeekFrom};

/// Bytes read at once, from the end backwards.
const BLOCK_BYTES: u64 = 64 << 10;

/// Where the last `lines` lines of what has `length` bytes begin. A line that has no end yet counts.
pub(super) async fn start<F: AsyncRead + AsyncSeek + Unpin>(
    file: &mut F,
    length: u64,
    lines: u64,
) -> io::Result<u64> {
    if lines == 0 {
        return Ok(length);
    }
    let mut block = Vec::new();
    let (mut end, mut left) = (length, lines);
    while end > 0 {
        let begin = end.saturating_sub(BLOCK_BYTES);
        block.resize(usize::try_from(end - begin).unwrap_or(0), 0);
        file.seek(SeekFrom::Start(begin)).await?;
        file.read_exact(&mut block).await?;
        for (at, byte) in block.iter().enumerate().rev() {
            let after = begin + at as u64 + 1;
            // The end of the file ends the last line, and begins none.
            if *byte == b'\n' && after < length {
                left -= 1;
                if left == 0 {
                    return Ok(after);
                }
            }
        }
        end = begin;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[tokio::test]
    async fn the_last_lines_are_found_wherever_blocks_end() {
        let long = "x".repeat(usize::try_from(BLOCK_BYTES).unwrap() - 3);
        for text in
            ["", "a", "a\n", "a\nb", "a\nb\nc\n", "\n\n\n", &format!("a\n{long}\nb\n{long}{long}\nc\n")]
        {
            for lines in 0..6_u64 {
                let all: Vec<&str> = text.split_inclusive('\n').collect();
                let first = all.len().saturating_sub(usize::try_from(lines).unwrap());
                let expected = all[first..].concat();
                let begin = start(&mut Cursor::new(text.as_bytes()), text.len() as u64, lines).await.unwrap();
                assert_eq!(
                    text[usize::try_from(begin).unwrap()..],
                    expected,
                    "{lines} of {} bytes",
                    text.len()
                );
            }
        }
    }
}
