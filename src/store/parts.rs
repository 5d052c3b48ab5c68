//! Bodies in parts.
//!
//! redb gives a value that does not fit a 4 kB page a page of the next power of two, header
//! included: 20 kB take 32 kB and 1 MiB takes 2 MiB (measured, redb 4.6). So a body is cut into
//! parts that fill such pages, the largest first.

use super::schema::SEAL_BYTES;

const PAGE_BYTES: usize = 4096;

/// What a page holds besides the part: redb's page header, key and value end (32 bytes at most),
/// and our seal.
const OVERHEAD_BYTES: usize = 32 + SEAL_BYTES;

/// The largest page used. Larger ones would make a lone picture cheaper by nothing and the
/// allocator's work harder.
const LARGEST_PAGE_BYTES: usize = 256 * 1024;

/// Cuts `body` into the parts that it is stored in. An empty body has none.
pub(super) fn cut(mut body: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if body.is_empty() {
            return None;
        }
        let (part, rest) = body.split_at(part_bytes(body.len()));
        body = rest;
        Some(part)
    })
}

/// The length of the next part of a body with `rest` bytes left: all of it if that fits one
/// page, otherwise what fills the largest page that is not larger than needed.
fn part_bytes(rest: usize) -> usize {
    let mut page = LARGEST_PAGE_BYTES;
    while PAGE_BYTES < page && rest < page - OVERHEAD_BYTES {
        page /= 2;
    }
    rest.min(page - OVERHEAD_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_up_the_body_again() {
        for length in [
            0, 1, 350, 4_059, 4_060, 20_000, 200_000, 1_048_576, 3_000_001,
        ] {
            let body: Vec<u8> = (0..length)
                .map(|index: usize| (index % 251).to_le_bytes()[0])
                .collect();
            assert_eq!(
                cut(&body).collect::<Vec<_>>().concat(),
                body,
                "{length} bytes"
            );
        }
    }

    #[test]
    fn parts_waste_at_most_a_page_and_a_few_bytes() {
        for length in [350, 5_000, 20_000, 200_000, 1_048_576, 16 << 20] {
            let body = vec![0; length];
            let pages: usize = cut(&body)
                .map(|part| {
                    (part.len() + OVERHEAD_BYTES)
                        .next_power_of_two()
                        .max(PAGE_BYTES)
                })
                .sum();
            let limit = length + length / 50 + 2 * PAGE_BYTES;
            assert!(pages <= limit, "{length} bytes in pages of {pages}");
        }
    }
}
