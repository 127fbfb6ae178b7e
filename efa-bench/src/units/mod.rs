//! Sizes, counts and durations as people type and read them: exact on the way in, one form on the way out.
//!
//! Everything here is integer arithmetic with checked overflow. The parsers refuse what can be read in
//! two ways (`64k`) instead of guessing, because a benchmark of the wrong size looks perfectly healthy.
//! Output never depends on the locale: the decimal mark is always `.` and nothing is grouped.

mod error;

use std::collections::HashSet;
use std::time::Duration;

pub use self::error::UnitError;

/// The sizes that the word `all` stands for end here (4 MiB and a half of it more).
const ALL_LARGEST_POWER: u32 = 22;

/// Reads one size in bytes: `64`, `64B`, `4kB` (4000), `64KiB` (65536), and MB, MiB, GB, GiB.
///
/// Zero is a size: an empty message is a valid one.
///
/// # Errors
/// Signs, fractions, blanks, unknown units and values past 64 bits are refused; `64k` is refused with
/// both of its readings.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    const WHAT: &str = "size";
    const EXAMPLE: &str = "64, 64KiB (65536) or 64kB (64000)";
    let (number, unit) = split_number(text, WHAT, EXAMPLE)?;
    let scale: u64 = match unit {
        "" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(unknown_size_unit(text, number, unit)),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(scale))
        .ok_or_else(|| too_large(WHAT, text, format!("{} bytes", u64::MAX)))
}

/// Reads a list of sizes in bytes: `1,64KiB`, ranges such as `8..1MiB`, and the word `all`.
///
/// A range holds both of its ends and every power of two between them. `all` is the list that
/// fi_pingpong's `-S all` runs: 0, 1, then each power of two and one and a half times it, up to 4 MiB
/// and 6 MiB. The order is the one that was written.
///
/// # Errors
/// As [`parse_size`]; a range that runs backwards and a size that is named twice are refused too.
pub fn parse_sizes(text: &str) -> Result<Vec<u64>, UnitError> {
    let mut sizes = Vec::new();
    for item in text.split(',') {
        if item == "all" {
            sizes.extend(all_sizes());
        } else if let Some((start, end)) = item.split_once("..") {
            sizes.extend(range(item, start, end)?);
        } else {
            sizes.push(parse_size(item)?);
        }
    }
    let mut seen = HashSet::new();
    match sizes.iter().find(|size| !seen.insert(**size)) {
        Some(&bytes) => Err(UnitError::Duplicate { given: excerpt(text), size: format_size(bytes), bytes }),
        None => Ok(sizes),
    }
}

/// The sizes of the word `all`, in bytes.
pub fn all_sizes() -> Vec<u64> {
    let mut sizes = vec![0, 1];
    for power in 1..=ALL_LARGEST_POWER {
        let size = 1_u64 << power;
        sizes.extend([size, size + size / 2]);
    }
    sizes
}

/// Reads a count of at least one: digits, and `_` between them for the eye.
///
/// # Errors
/// Zero, signs, fractions, suffixes and values past 64 bits are refused.
pub fn parse_count(text: &str) -> Result<u64, UnitError> {
    const WHAT: &str = "count";
    const EXAMPLE: &str = "10000 or 10_000";
    let stray_underscore = text.starts_with('_') || text.ends_with('_') || text.contains("__");
    let digits = if stray_underscore { text.to_owned() } else { text.replace('_', "") };
    let (number, unit) = split_number(&digits, WHAT, EXAMPLE)?;
    if !unit.is_empty() {
        return Err(UnitError::UnknownUnit {
            what: WHAT,
            given: excerpt(text),
            unit: excerpt(unit),
            known: "none: a count is written out, such as 10000 or 10_000",
        });
    }
    match number.parse::<u64>() {
        Ok(0) => Err(UnitError::Zero { what: WHAT, given: excerpt(text), example: "1" }),
        Ok(count) => Ok(count),
        Err(_) => Err(too_large(WHAT, text, u64::MAX.to_string())),
    }
}

/// Reads a duration: `2s`, `500ms`, `1m` (a minute), `10us`, `1h`; a bare number is seconds.
///
/// # Errors
/// Zero, signs, fractions, unknown units and anything past 2^64 nanoseconds (584 years) are refused.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    const WHAT: &str = "duration";
    const EXAMPLE: &str = "2s, 1500ms or 10us";
    let (number, unit) = split_number(text, WHAT, EXAMPLE)?;
    let scale: u64 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => {
            return Err(UnitError::UnknownUnit {
                what: WHAT,
                given: excerpt(text),
                unit: excerpt(unit),
                known: "ns, us, ms, s, m (minutes) and h",
            });
        }
    };
    match number.parse::<u64>().ok().and_then(|n| n.checked_mul(scale)) {
        Some(0) => Err(UnitError::Zero { what: WHAT, given: excerpt(text), example: "1ns" }),
        Some(nanos) => Ok(Duration::from_nanos(nanos)),
        None => Err(too_large(WHAT, text, format!("{}s", u64::MAX / 1_000_000_000))),
    }
}

/// Cuts what somebody typed to what a message can hold: 80 characters at most, with `...` for the rest.
pub fn excerpt(text: &str) -> String {
    const MOST: usize = 80;
    const MARK: &str = "...";
    match text.char_indices().nth(MOST) {
        None => text.to_owned(),
        Some(_) => text.chars().take(MOST - MARK.len()).chain(MARK.chars()).collect(),
    }
}

/// Writes a size exactly: `64`, `64 KiB`, `1 MiB`; a size that no unit divides stays in bytes.
///
/// Products of sizes can be longer than 64 bits.
pub fn format_size(bytes: impl Into<u128>) -> String {
    let bytes = bytes.into();
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Writes an amount of memory to one decimal, for people: `22.1 GiB`, `64.0 KiB`, `512 bytes`.
pub fn format_memory(bytes: impl Into<u128>) -> String {
    let bytes = bytes.into();
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >> shift > 0 {
            return format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64);
        }
    }
    format!("{bytes} bytes")
}

/// Writes a time given in nanoseconds with three significant digits or more: `845 ns`, `9.53 us`, `1.25 ms`.
///
/// A value that is not finite is written as `-`.
pub fn format_ns(nanos: f64) -> String {
    if !nanos.is_finite() {
        return "-".to_owned();
    }
    match nanos.abs() {
        n if n < 1e3 => format!("{} ns", three_digits(nanos)),
        n if n < 1e6 => format!("{} us", three_digits(nanos / 1e3)),
        n if n < 1e9 => format!("{} ms", three_digits(nanos / 1e6)),
        _ => format!("{} s", three_digits(nanos / 1e9)),
    }
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v < 10.0 => format!("{value:.2}"),
        v if v < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Splits `64KiB` into `64` and `KiB`, and says what is wrong where there is no whole number in front.
fn split_number<'a>(text: &'a str, what: &'static str, example: &'static str) -> Result<(&'a str, &'a str), UnitError> {
    let given = || excerpt(text);
    if text.is_empty() {
        return Err(UnitError::Empty { what, example });
    }
    if text.starts_with(['+', '-']) {
        return Err(UnitError::Signed { what, given: given(), example });
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let exponent = unit
        .strip_prefix(['e', 'E'])
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c)));
    if unit.starts_with(['.', ',']) || (digits > 0 && exponent) {
        return Err(UnitError::NotWhole { what, given: given(), example });
    }
    if digits == 0 {
        return Err(UnitError::NoNumber { what, given: given(), example });
    }
    Ok((number, unit))
}

fn range(item: &str, start: &str, end: &str) -> Result<Vec<u64>, UnitError> {
    let (first, last) = (parse_size(start)?, parse_size(end)?);
    if first > last {
        return Err(UnitError::Backwards { given: excerpt(item), start: excerpt(start), end: excerpt(end) });
    }
    let between = (0..u64::BITS).map(|power| 1_u64 << power).filter(|&n| first < n && n < last);
    let mut sizes: Vec<u64> = std::iter::once(first).chain(between).collect();
    if last != first {
        sizes.push(last);
    }
    Ok(sizes)
}

fn unknown_size_unit(text: &str, number: &str, unit: &str) -> UnitError {
    let (binary, decimal, power) = match unit {
        "k" | "K" | "KB" | "kb" | "Kb" => ("KiB", "kB", 1),
        "m" | "M" | "mb" | "Mb" => ("MiB", "MB", 2),
        "g" | "G" | "gb" | "Gb" => ("GiB", "GB", 3),
        _ => {
            return UnitError::UnknownUnit {
                what: "size",
                given: excerpt(text),
                unit: excerpt(unit),
                known: "B, kB, MB, GB (powers of 1000) and KiB, MiB, GiB (powers of 1024)",
            };
        }
    };
    let value = |base: u64| {
        let bytes = number.parse::<u64>().ok().and_then(|n| n.checked_mul(base.pow(power)));
        bytes.map_or_else(|| "too many".to_owned(), |bytes| bytes.to_string())
    };
    let number = excerpt(number);
    UnitError::AmbiguousUnit {
        given: excerpt(text),
        binary: format!("{number}{binary}"),
        binary_bytes: value(1024),
        decimal: format!("{number}{decimal}"),
        decimal_bytes: value(1000),
    }
}

fn too_large(what: &'static str, text: &str, max: String) -> UnitError {
    UnitError::TooLarge { what, given: excerpt(text), max }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_exact_in_both_families_of_units() {
        for (text, bytes) in [
            ("0", 0),
            ("64", 64),
            ("64B", 64),
            ("4kB", 4_000),
            ("64KiB", 65_536),
            ("3MB", 3_000_000),
            ("1MiB", 1_048_576),
            ("2GB", 2_000_000_000),
            ("5000000000", 5_000_000_000),
            ("8GiB", 8_589_934_592),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn an_ambiguous_size_is_refused_with_both_readings() {
        let message = parse_size("64k").unwrap_err().to_string();
        assert!(message.contains("64KiB for 65536 bytes"), "{message}");
        assert!(message.contains("64kB for 64000 bytes"), "{message}");
        for text in ["64K", "64KB", "1m", "1M", "1g", "1G", "99999999999999999999k"] {
            assert!(matches!(parse_size(text), Err(UnitError::AmbiguousUnit { .. })), "{text}");
        }
    }

    #[test]
    fn malformed_sizes_are_refused() {
        for text in [
            "",
            "-5",
            "+5",
            "1.5KiB",
            "1e3",
            "1E+3",
            "KiB",
            " 64",
            "64 ",
            "64 KiB",
            "0x40",
            "64kib",
            "64Kib",
            "64TiB",
            "1_000",
            "18446744073709551616",
            "18014398509481984KiB",
            "17179869184GiB",
            "٦٤",
            "64\0",
        ] {
            assert!(parse_size(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn size_lists_keep_the_order_and_expand_ranges() {
        assert_eq!(parse_sizes("64KiB,1"), Ok(vec![65_536, 1]));
        assert_eq!(parse_sizes("8..64"), Ok(vec![8, 16, 32, 64]));
        assert_eq!(parse_sizes("0..5"), Ok(vec![0, 1, 2, 4, 5]));
        assert_eq!(parse_sizes("100..1000"), Ok(vec![100, 128, 256, 512, 1000]));
        assert_eq!(parse_sizes("8..8"), Ok(vec![8]));
        assert_eq!(parse_sizes("7,8..16"), Ok(vec![7, 8, 16]));
        let whole = parse_sizes("1..18446744073709551615").unwrap();
        assert_eq!((whole.len(), whole[63]), (65, 1 << 63));
    }

    #[test]
    fn bad_size_lists_are_refused() {
        for text in ["", "1,", ",1", "1,,2", "1,1", "8..64,16", "64..8", "..8", "8..", "8..=16", "8..64k", "ALL"] {
            assert!(parse_sizes(text).is_err(), "{text:?} was accepted");
        }
        let message = parse_sizes("1MiB,8..1MiB").unwrap_err().to_string();
        assert!(message.contains("1 MiB (1048576 bytes)"), "{message}");
    }

    #[test]
    fn all_is_the_list_of_fi_pingpong() {
        let sizes = parse_sizes("all").unwrap();
        assert_eq!(sizes[..10], [0, 1, 2, 3, 4, 6, 8, 12, 16, 24]);
        assert_eq!(sizes[44..], [4 << 20, 6 << 20]);
    }

    #[test]
    fn counts_are_whole_and_positive() {
        assert_eq!(parse_count("10000"), Ok(10_000));
        assert_eq!(parse_count("10_000"), Ok(10_000));
        assert_eq!(parse_count("4294967297"), Ok(4_294_967_297));
        for text in ["", "0", "00", "-5", "+5", "10k", "1e4", "1.0", "_1", "1_", "1__0", "18446744073709551616"] {
            assert!(parse_count(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn durations_carry_their_unit_or_are_seconds() {
        for (text, nanos) in [
            ("2s", 2_000_000_000),
            ("2", 2_000_000_000),
            ("500ms", 500_000_000),
            ("10us", 10_000),
            ("7ns", 7),
            ("1m", 60_000_000_000),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        for text in ["", "0", "0ms", "-1s", "1.5s", "2 s", "2sec", "2S", "18446744074", "999999999999h"] {
            assert!(parse_duration(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn formatted_values_are_exact_and_use_a_point() {
        assert_eq!(format_size(64_u64), "64");
        assert_eq!(format_size(0_u64), "0");
        assert_eq!(format_size(65_536_u64), "64 KiB");
        assert_eq!(format_size(65_537_u64), "65537");
        assert_eq!(format_size(1_048_576_u64), "1 MiB");
        assert_eq!(format_size(1_536_u64), "1536");
        assert_eq!(format_size(3_u64 << 30), "3 GiB");
        assert_eq!(format_size(3_u128 << 70), "3298534883328 GiB");
        assert_eq!(format_memory(1_u128 << 70), "1099511627776.0 GiB");
        assert_eq!(format_ns(845.0), "845 ns");
        assert_eq!(format_ns(9_530.0), "9.53 us");
        assert_eq!(format_ns(1_250_000.0), "1.25 ms");
        assert_eq!(format_ns(2.5e9), "2.50 s");
        assert_eq!(format_ns(f64::NAN), "-");
    }

    #[test]
    fn what_is_echoed_is_cut_to_what_a_line_holds() {
        assert_eq!(excerpt(&"ä".repeat(80)), "ä".repeat(80));
        assert_eq!(excerpt(&"ä".repeat(81)), "ä".repeat(77) + "...");
        let (digits, zeros) = ("9".repeat(5000), "0".repeat(5000));
        for text in [
            digits.clone(),
            format!("-{digits}"),
            format!("x{digits}"),
            format!("{digits}k"),
            format!("1{}", "q".repeat(5000)),
            format!("{digits}.5"),
            format!("{zeros}8..{zeros}4"),
            format!("{zeros}8,8"),
            zeros.clone() + "_",
        ] {
            let errors = [parse_sizes(&text).err(), parse_count(&text).err(), parse_duration(&text).err()];
            assert!(errors.iter().flatten().count() > 0, "{text}");
            for error in errors.into_iter().flatten() {
                assert!(error.to_string().chars().count() < 400, "{error}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_formatted_size_reads_back_exactly(bytes: u64) {
            prop_assert_eq!(parse_size(&format_size(bytes).replace(' ', "")), Ok(bytes));
        }

        #[test]
        fn no_text_makes_a_parser_panic(text in "\\PC{0,24}") {
            let _ = parse_size(&text);
            let _ = parse_sizes(&text);
            let _ = parse_count(&text);
            let _ = parse_duration(&text);
        }

        #[test]
        fn a_range_is_ascending_and_keeps_its_ends(a in 0_u64..1 << 40, b in 0_u64..1 << 40) {
            let (first, last) = (a.min(b), a.max(b));
            let sizes = parse_sizes(&format!("{first}..{last}")).unwrap();
            prop_assert!(sizes.is_sorted());
            prop_assert_eq!((sizes[0], sizes[sizes.len() - 1]), (first, last));
        }
    }
}
