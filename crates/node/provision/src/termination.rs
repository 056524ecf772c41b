//! Termination messages of containers.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use rustix::fs::{Mode, OFlags};

/// Bytes of a termination message.
const MESSAGE_BYTES_MAX: u64 = 4096;
/// Bytes of one that is taken from the log.
const LOG_BYTES_MAX: usize = 2048;
const LOG_LINES_MAX: usize = 80;
/// Bytes of a log file that hold the last 2048 bytes of output: a line has at most 16 KiB, and 80 short lines are less.
const LOG_FILE_BYTES_MAX: u64 = 128 << 10;

/// The last 4096 bytes that a container wrote to its `terminationMessagePath`; `None` when it wrote nothing.
///
/// # Errors
/// When the file cannot be read.
pub fn termination_message(path: &Path) -> io::Result<Option<String>> {
    let text = match open(path).and_then(|file| end_of(file, MESSAGE_BYTES_MAX)) {
        Ok((text, _)) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(String::from_utf8_lossy(&text).into_owned()).filter(|text| !text.is_empty()))
}

/// The end of a container's output: 80 lines and 2048 bytes at most. For `FallbackToLogsOnError`.
///
/// # Errors
/// When the log cannot be read.
pub fn last_output(log: &Path) -> io::Result<String> {
    let (text, is_whole) = end_of(lazaret_containers::open_log(log)?, LOG_FILE_BYTES_MAX)?;
    let text = String::from_utf8_lossy(&text);
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    if !is_whole && !lines.is_empty() {
        lines.remove(0);
    }
    let from = first_of_last(&lines, LOG_LINES_MAX);
    let mut output = String::new();
    for line in &lines[from..] {
        let Some((content, is_full)) = parts(line) else { continue };
        output.push_str(content);
        if is_full {
            output.push('\n');
        }
    }
    let mut at = output.len().saturating_sub(LOG_BYTES_MAX);
    while !output.is_char_boundary(at) {
        at += 1;
    }
    Ok(output.split_off(at))
}

/// Where the last lines of output begin. A line of output may be several of the file.
fn first_of_last(lines: &[&str], count: usize) -> usize {
    let mut ends = 0;
    for (at, line) in lines.iter().enumerate().rev() {
        if parts(line).is_some_and(|(_, is_full)| is_full) {
            ends += 1;
        }
        if ends > count {
            return at + 1;
        }
    }
    0
}

/// `TIME STREAM F CONTENT` or, when more of the line follows, `TIME STREAM P CONTENT`.
fn parts(line: &str) -> Option<(&str, bool)> {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let mut words = line.splitn(4, ' ');
    let (_time, _stream, tag) = (words.next()?, words.next()?, words.next()?);
    let is_full = tag.split(':').next() == Some("F");
    Some((words.next().unwrap_or_default(), is_full))
}

/// Nothing is waited for, and no link is followed.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// The end of a file, and whether that is all of it.
fn end_of(mut file: File, bytes_max: u64) -> io::Result<(Vec<u8>, bool)> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file"));
    }
    let from = metadata.len().saturating_sub(bytes_max);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok((bytes, from == 0))
}
