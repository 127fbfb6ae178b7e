//! Reads where this Debian gets its packages, to get one package of the next release the same way.

use std::fs;
use std::path::Path;

/// The two facts of `os-release` that matter here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) id: String,
    pub(crate) codename: String,
}

/// Which release of which distribution this is (os-release(5)).
pub(crate) fn release(os_release: &str) -> Option<Release> {
    let value = |name: &str| {
        os_release
            .lines()
            .filter_map(|line| line.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.trim_matches('"').to_owned())
    };
    Some(Release { id: value("ID")?, codename: value("VERSION_CODENAME").unwrap_or_default() })
}

/// The first archive that this machine takes the release's main packages from.
pub(crate) fn archive(etc_apt: &Path, codename: &str) -> Option<String> {
    let mut files = vec![etc_apt.join("sources.list")];
    let parts = fs::read_dir(etc_apt.join("sources.list.d"));
    let mut parts: Vec<_> = parts.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    parts.sort();
    files.append(&mut parts);
    files.iter().find_map(|file| {
        let text = fs::read_to_string(file).ok()?;
        match file.extension()?.to_str()? {
            "list" => in_list(&text, codename),
            "sources" => in_stanzas(&text, codename),
            _ => None,
        }
    })
}

/// The older form, one line each: `deb [options] URI suite component...`.
fn in_list(text: &str, codename: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let line = line.split('#').next()?.trim().strip_prefix("deb")?;
        let line = line.strip_prefix([' ', '\t'])?.trim_start();
        // Options in brackets may contain spaces.
        let line = match line.strip_prefix('[') {
            Some(options) => options.split_once(']')?.1,
            None => line,
        };
        let mut words = line.split_whitespace();
        let (uri, suite) = (words.next()?, words.next()?);
        (suite_is(suite, codename) && words.any(|component| component == "main")).then(|| uri.to_owned())
    })
}

/// The newer form, stanzas of `Name: value` separated by empty lines (deb822).
fn in_stanzas(text: &str, codename: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines.split(|line| line.trim().is_empty()).find_map(|stanza| {
        let words = |name: &str| -> Vec<String> {
            let mut inside = false;
            let mut words = Vec::new();
            for line in stanza {
                // A line that begins with a blank continues the field above it.
                let value = if line.starts_with([' ', '\t']) {
                    inside.then_some(*line)
                } else {
                    let field = line.split_once(':');
                    let field = field.filter(|(key, _)| key.eq_ignore_ascii_case(name));
                    inside = field.is_some();
                    field.map(|(_, value)| value)
                };
                words.extend(value.into_iter().flat_map(str::split_whitespace).map(str::to_owned));
            }
            words
        };
        let disabled = words("Enabled").iter().any(|word| word == "no");
        let fits = !disabled
            && words("Types").iter().any(|word| word == "deb")
            && words("Suites").iter().any(|suite| suite_is(suite, codename))
            && words("Components").iter().any(|word| word == "main");
        if fits { words("URIs").into_iter().next() } else { None }
    })
}

fn suite_is(suite: &str, codename: &str) -> bool {
    suite == codename || matches!(suite, "stable" | "oldstable" | "testing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_of_the_release_is_taken_from_stanzas() {
        let text = "# a comment\nTypes: deb\nURIs: http://security.invalid/debian-security\n\
                    Suites: bookworm-security\nComponents: main\n\n\
                    Types: deb deb-src\n# http://old.invalid\nURIs:\n http://mirror.invalid/debian\n http://second.invalid\n\
                    Suites: bookworm bookworm-updates\nComponents: main contrib\n";
        let uri = in_stanzas(text, "bookworm");
        assert_eq!(uri.as_deref(), Some("http://mirror.invalid/debian"));
        assert_eq!(in_stanzas(text, "trixie"), None);
        let disabled = format!("Enabled: no\n{}", text.split("\n\n").nth(1).unwrap());
        assert_eq!(in_stanzas(&disabled, "bookworm"), None);
    }

    #[test]
    fn the_archive_of_the_release_is_taken_from_lines() {
        let text = "# deb http://no.invalid/debian bookworm main\n\
                    deb-src http://src.invalid/debian bookworm main\n\
                    deb http://security.invalid/debian bookworm-security main\n\
                    deb [arch=amd64 signed-by=/a/b.gpg] http://mirror.invalid/debian bookworm contrib main # x\n";
        assert_eq!(in_list(text, "bookworm").as_deref(), Some("http://mirror.invalid/debian"));
        assert_eq!(in_list("deb http://a.invalid/debian bookworm contrib", "bookworm"), None);
    }

    #[test]
    fn the_distribution_is_read_from_os_release() {
        let text = "NAME=\"Debian GNU/Linux\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        let debian = Release { id: "debian".into(), codename: "bookworm".into() };
        assert_eq!(release(text), Some(debian));
        assert_eq!(release("ID=\"amzn\"\n").unwrap().codename, "");
        assert_eq!(release(""), None);
    }
}
