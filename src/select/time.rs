//! Dates in lines that have no names for their columns.

/// How much of a body is looked at, in bytes: many lines, and no picture.
const MOST: usize = 64 * 1024;

/// What is looked for; `0` is any digit, and a `T` may stand for the blank.
const FORM: &[u8] = b"0000-00-00 00:00:00";

/// The first date with a time of day in the text of `body`, as it stands there: terminals have it
/// in another column of each kind of line. What follows a NUL is no text.
pub(super) fn find_in(body: &[u8]) -> Option<&str> {
    let text = body.split(|byte| *byte == 0).next()?;
    let text = &text[..text.len().min(MOST)];
    let found = text.windows(FORM.len()).find(|piece| is_date(piece))?;
    std::str::from_utf8(found).ok()
}

fn is_date(piece: &[u8]) -> bool {
    piece.iter().zip(FORM).all(|(byte, form)| match form {
        b'0' => byte.is_ascii_digit(),
        b' ' => matches!(byte, b' ' | b'T'),
        form => byte == form,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_date_is_found_wherever_it_stands() {
        let rows: &[(&[u8], Option<&str>)] = &[
            (
                b"1007\t2026-03-04 09:16:01\t0\n",
                Some("2026-03-04 09:16:01"),
            ),
            (
                b"USER PIN=1\tName=\xd5\xc5\nOPLOG 4\t0\t2026-03-04 09:10:00\t0\n",
                Some("2026-03-04 09:10:00"),
            ),
            (
                b"time=2026-03-04T09:16:01\tpin=1",
                Some("2026-03-04T09:16:01"),
            ),
            (b"2026-03-04\t09:16:01", None),
            (b"PIN=1.jpg\0\xff2026-03-04 09:16:01", None),
            (b"2026-03-04 09:16:0", None),
            (b"", None),
        ];
        for (body, expected) in rows {
            let shown = String::from_utf8_lossy(body);
            assert_eq!(find_in(body), *expected, "{shown}");
        }
    }
}
