//! Text for people: tables, ages, and what a device sent without what would move the cursor.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use crate::admin::views::Time;
use crate::audit::Pause;
use crate::event::printable;

/// A table: a head and rows, columns apart by two blanks.
pub(super) struct Table<const N: usize> {
    head: [&'static str; N],
    rows: Vec<[String; N]>,
    /// Columns whose values end below each other: numbers.
    right: &'static [usize],
}

impl<const N: usize> Table<N> {
    /// An empty table. The columns in `right` hold numbers.
    pub(super) fn new(head: [&'static str; N], right: &'static [usize]) -> Self {
        Self {
            head,
            rows: Vec::new(),
            right,
        }
    }

    /// Adds a row.
    pub(super) fn add(&mut self, row: [String; N]) {
        self.rows.push(row);
    }

    /// Prints the rows, and the head if it `is_first` of several tables below each other.
    pub(super) fn print(&self, is_first: bool, out: &mut dyn Write) -> io::Result<()> {
        let head = self.head.map(str::to_owned);
        let widths: [usize; N] = std::array::from_fn(|column| {
            let all = self.rows.iter().chain([&head]);
            all.map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        });
        let mut text = String::new();
        for row in is_first.then_some(&head).into_iter().chain(&self.rows) {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                _ = if self.right.contains(&column) {
                    write!(line, "{gap}{cell:>width$}")
                } else {
                    write!(line, "{gap}{cell:width$}")
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        out.write_all(text.as_bytes())
    }
}

/// Prints `value` as one line of JSON.
pub(super) fn json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

/// An age in words: `3.2 min`; `-` if it is not known.
pub(super) fn age(time: Option<&Time>) -> String {
    time.map_or_else(
        || "-".to_owned(),
        |time| Pause(Duration::from_millis(time.age_ms)).to_string(),
    )
}

/// A short text of a device, for a column; `-` if there is none.
pub(super) fn short(text: Option<&str>) -> String {
    text.map_or_else(|| "-".to_owned(), printable)
}

/// A text of a device or an upstream, whole, in its own script, on one line: what a terminal
/// would obey and not print is written as `\u{…}`.
pub(super) fn safe(text: &str) -> String {
    text.chars().fold(String::new(), |mut safe, character| {
        if is_plain(character) {
            safe.push(character);
        } else {
            _ = write!(safe, "{}", character.escape_unicode());
        }
        safe
    })
}

/// Whether a terminal prints this character where it stands: no control character, and none that
/// turns the direction of what follows.
fn is_plain(character: char) -> bool {
    let turns = matches!(character,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !character.is_control() && !turns
}

/// `body` as text if it is one: UTF-8 in plain characters, tabs and line ends.
pub(super) fn as_text(body: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(body).ok()?;
    let lines = text.replace("\r\n", "\n");
    let is_text = |character| is_plain(character) || matches!(character, '\n' | '\t');
    lines.chars().all(is_text).then_some(text)
}

/// `bytes` in hexadecimal and as ASCII, 16 a line.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (number, line) in bytes.chunks(16).enumerate() {
        _ = write!(text, "{:08x} ", number * 16);
        for byte in line {
            _ = write!(text, " {byte:02x}");
        }
        let gap = 3 * (16 - line.len()) + 2;
        let ascii = line.iter().map(|byte| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '.',
        });
        _ = writeln!(text, "{:gap$}{}", "", ascii.collect::<String>());
    }
    text
}

/// `1 event`, `2 events`.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    let word = if number == 1 { one } else { many };
    format!("{number} {word}")
}

/// A number of bytes: `412 bytes`, `3.4 MiB`.
pub(super) fn bytes(number: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if number < 1024 {
        return count(number, "byte", "bytes");
    }
    let mut tenths = u128::from(number) * 10 / 1024;
    let mut unit = 0;
    while 10_240 <= tenths && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_end_with_text() {
        let mut table = Table::new(["NAME", "N", "WHY"], &[1]);
        table.add(["a".to_owned(), "1".to_owned(), String::new()]);
        table.add(["longer".to_owned(), "22".to_owned(), "x".to_owned()]);
        let mut out = Vec::new();
        table.print(true, &mut out).expect("written");
        let expected = "NAME     N  WHY\na        1\nlonger  22  x\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn nothing_a_device_sent_moves_the_cursor() {
        let rows = [
            ("plain ไทย é", "plain ไทย é"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("a\nb\r\t\u{7f}", "a\\u{a}b\\u{d}\\u{9}\\u{7f}"),
            ("\u{9b}31m\u{202e}", "\\u{9b}31m\\u{202e}"),
        ];
        for (text, expected) in rows {
            assert_eq!(safe(text), expected);
        }
        let bodies: [(&[u8], bool); 8] = [
            (b"{\"a\":1}\r\n\tx\n", true),
            ("ไทย".as_bytes(), true),
            (b"", true),
            (b"\xff", false),
            (b"a\x00", false),
            (b"over\rwritten", false),
            (b"\x1b[31m", false),
            ("\u{202e}".as_bytes(), false),
        ];
        for (body, is_text) in bodies {
            assert_eq!(as_text(body).is_some(), is_text, "{body:?}");
        }
    }

    #[test]
    fn hexadecimal_has_its_text_beside_it() {
        let text = hex(b"0123456789abcdef\x00\xff ~");
        let expected = "\
00000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef
00000010  00 ff 20 7e                                      .. ~
";
        assert_eq!(text, expected);
    }

    #[test]
    fn sizes_are_in_words() {
        let rows = [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1_023, "1023 bytes"),
            (1_024, "1.0 KiB"),
            (1_048_575, "1023.9 KiB"),
            (3_565_159, "3.4 MiB"),
            (u64::MAX, "16777215.9 TiB"),
        ];
        for (number, words) in rows {
            assert_eq!(bytes(number), words);
        }
    }
}
