//! Points in time as RFC 3339 text.

use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_OF_DAY: u64 = 86_400;

/// Writes a point in time in UTC to the second, as RFC 3339 has it: `2026-03-01T12:34:56Z`.
///
/// A time before 1970 is written as the beginning of 1970: it can only come from a clock that was never set.
pub fn rfc3339_utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / SECONDS_OF_DAY, seconds % SECONDS_OF_DAY);
    let (year, month, day) = civil_date(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Year, month and day of the given number of days after 1 January 1970, in the Gregorian calendar.
fn civil_date(mut days: u64) -> (u64, u64, u64) {
    // The calendar repeats every 400 years of 146097 days; with the rest there are few steps left to take.
    let mut year = 1970 + 400 * (days / 146_097);
    days %= 146_097;
    while days >= days_of_year(year) {
        days -= days_of_year(year);
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

fn days_of_year(year: u64) -> u64 {
    365 + u64::from(is_leap(year))
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        // `date -u -d @SECONDS` gives the same.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_735_689_600, "2025-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339_utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        assert_eq!(rfc3339_utc(UNIX_EPOCH - Duration::from_secs(5)), "1970-01-01T00:00:00Z");
    }
}
