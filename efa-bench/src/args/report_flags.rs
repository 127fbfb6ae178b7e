//! The rule that lets `--json [FILE]` stand beside a HOST.
//!
//! `--json` takes a value that may be left out, and HOST is a positional argument that may be left
//! out, so `--json NAME` has two readings. A word after `--json`, `--csv` or `--markdown` is its file
//! if it is `-`, has a `/` in it, or ends as files of that format do; it is the HOST if it is an IP
//! address or `localhost`; any other word is refused, naming both ways to write it. `--json=FILE`
//! always works.

use std::ffi::{OsStr, OsString};
use std::net::IpAddr;

use crate::units::excerpt;

const FLAGS: [(&str, &[&str]); 3] =
    [("--json", &[".json"]), ("--csv", &[".csv"]), ("--markdown", &[".md", ".markdown"])];

/// Rewrites `--json FILE` to `--json=FILE` where FILE can only be a file.
///
/// # Errors
/// Where the word could be either, a text that says so.
pub(super) fn attach_files(args: Vec<OsString>) -> Result<Vec<OsString>, String> {
    let mut out = Vec::with_capacity(args.len());
    let mut words = args.into_iter().peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            out.push(word);
            out.extend(words);
            break;
        }
        let Some((flag, endings)) = FLAGS.iter().find(|(flag, _)| word == *flag) else {
            out.push(word);
            continue;
        };
        match words.peek().map(|next| (reading(next, endings), next)) {
            Some((Reading::File, _)) => {
                let mut joined = OsString::from(format!("{flag}="));
                joined.push(words.next().unwrap_or_default());
                out.push(joined);
            }
            Some((Reading::Unclear, next)) => {
                let next = excerpt(&next.to_string_lossy());
                return Err(format!(
                    "'{next}' after {flag} could be a file or the HOST; write `{flag}={next}` \
                     for a file, or put the host first, as in `{next} {flag}`"
                ));
            }
            Some((Reading::NotItsValue, _)) | None => out.push(word),
        }
    }
    Ok(out)
}

enum Reading {
    File,
    NotItsValue,
    Unclear,
}

fn reading(word: &OsStr, endings: &[&str]) -> Reading {
    let text = word.to_string_lossy();
    if text == "-" {
        return Reading::File;
    }
    if text.starts_with('-') {
        return Reading::NotItsValue;
    }
    if text.contains('/') || endings.iter().any(|e| text.ends_with(e)) {
        return Reading::File;
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let bare = bare.split('%').next().unwrap_or(bare);
    if text == "localhost" || bare.parse::<IpAddr>().is_ok() {
        return Reading::NotItsValue;
    }
    Reading::Unclear
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attach(args: &[&str]) -> Result<Vec<String>, String> {
        attach_files(args.iter().map(OsString::from).collect())
            .map(|out| out.into_iter().map(|w| w.to_string_lossy().into_owned()).collect())
    }

    #[test]
    fn a_word_that_can_only_be_a_file_is_the_value() {
        assert_eq!(attach(&["--json", "out.json"]).unwrap(), ["--json=out.json"]);
        assert_eq!(attach(&["--csv", "/tmp/x"]).unwrap(), ["--csv=/tmp/x"]);
        assert_eq!(attach(&["--markdown", "a.md"]).unwrap(), ["--markdown=a.md"]);
        assert_eq!(attach(&["h", "--json", "-", "-c"]).unwrap(), ["h", "--json=-", "-c"]);
    }

    #[test]
    fn a_flag_an_address_or_the_end_is_not_the_value() {
        for args in [
            &["--json"][..],
            &["--json", "-c"],
            &["--json", "10.0.0.1"],
            &["--json", "::1"],
            &["--json", "[fe80::1%lo]"],
            &["--json", "localhost"],
            &["--json", "--csv", "--", "--json", "x"],
        ] {
            assert_eq!(attach(args).unwrap(), args);
        }
    }

    #[test]
    fn a_word_with_two_readings_is_refused_with_both() {
        let error = attach(&["--json", "nodeb"]).unwrap_err();
        assert!(error.contains("--json=nodeb"), "{error}");
        assert!(error.contains("nodeb --json"), "{error}");
        assert!(attach(&["--json", "out.csv"]).is_err());
    }
}
