//! The words that name a host: the server's, and the address of this side.

use std::net::IpAddr;

use crate::units::excerpt;

use super::values::{digits, name};

/// A name, or an address as the resolver takes it: an IPv6 one with or without brackets and interface.
pub(super) fn host(word: &str) -> Result<String, String> {
    if word.trim().is_empty() {
        return Err("a host name or an address is needed, such as nodeb or 10.0.0.7".into());
    }
    let host = name(word)?;
    let (address, interface) = unbracketed(&host).split_once('%').unwrap_or((unbracketed(&host), ""));
    match address.parse::<IpAddr>() {
        Ok(address) if is_link_local(address) && interface.is_empty() => Err(format!(
            "a link-local address is reached through an interface of this host; name it, as in `{address}%IFACE` \
             (`ip -brief address` lists them)"
        )),
        Err(_) if host.contains(':') => Err(match host.rsplit_once(':') {
            Some((before, port)) if digits(port) && is_one_host(before) => {
                let (before, port) = (excerpt(unbracketed(before)), excerpt(port));
                format!("the port has a flag of its own; write `{before} --port {port}`")
            }
            _ => "neither a name nor an address: only an IPv6 address has a `:` in it, and a port is given \
                as `--port PORT`"
                .into(),
        }),
        _ => Ok(host),
    }
}

/// Whether what stands before a `:` can only be a host of its own, and not the beginning of an IPv6 address.
fn is_one_host(before: &str) -> bool {
    let bare = unbracketed(before);
    let is_whole = bare.len() < before.len() || !bare.contains(':') || bare.parse::<IpAddr>().is_ok();
    is_whole && !bare.is_empty()
}

pub(super) fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host)
}

pub(super) fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

pub(super) fn source_address(word: &str) -> Result<IpAddr, String> {
    if let Some((address, interface)) = word.split_once('%')
        && address.parse::<IpAddr>().is_ok()
    {
        let (address, interface) = (excerpt(address), excerpt(interface));
        return Err(format!(
            "-s takes the address alone, and the interface stands in the HOST, as in \
             `efa-pingpong fe80::2%{interface} -s {address}`"
        ));
    }
    word.parse().map_err(|_| {
        "not an IP address; write the address of this host's interface, such as 10.0.0.7 or \
         2001:db8::7 (`ip -brief address` lists them)"
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_and_no_port() {
        for good in [
            "nodeb",
            "10.0.0.7",
            "::1",
            "[::1]",
            "::1:4759",
            "fe80::1%lo",
            "[fe80::1%eth0]",
            "a.example",
            "169.254.0.1",
        ] {
            assert_eq!(host(good).as_deref(), Ok(good));
        }
        for (wrong, told) in [
            ("", "a host name or an address is needed"),
            (" ", "a host name or an address is needed"),
            ("127.0.0.1:47592", "`127.0.0.1 --port 47592`"),
            ("[::1]:47592", "`::1 --port 47592`"),
            ("::1:47592", "`::1 --port 47592`"),
            ("[fe80::1%eth0]:5", "`fe80::1%eth0 --port 5`"),
            ("nodeb:123", "`nodeb --port 123`"),
            ("nodeb:", "`--port PORT`"),
            (":123", "`--port PORT`"),
            ("http://nodeb", "`--port PORT`"),
            ("1:2:3", "`--port PORT`"),
            ("fe80::1", "`fe80::1%IFACE`"),
            ("[fe80::1]", "`fe80::1%IFACE`"),
            ("fe80::1%", "`fe80::1%IFACE`"),
        ] {
            let text = host(wrong).expect_err(wrong);
            assert!(text.contains(told) && !text.contains("leave the flag out"), "{wrong}: {text}");
        }
    }

    #[test]
    fn a_source_address_has_no_interface() {
        assert_eq!(source_address("fe80::1"), Ok("fe80::1".parse().unwrap()));
        let text = source_address("fe80::1%eth0").unwrap_err();
        assert!(text.contains("fe80::2%eth0 -s fe80::1"), "{text}");
        assert!(source_address("nodeb%eth0").unwrap_err().contains("not an IP address"));
    }

    #[test]
    fn long_words_are_not_told_whole() {
        let long = "9".repeat(1000);
        for told in [host(&format!("{long}:1")), host(&format!("x:{long}"))] {
            let text = told.unwrap_err();
            assert!(text.len() < 400, "{text}");
        }
        let text = source_address(&format!("fe80::1%{long}")).unwrap_err();
        assert!(text.len() < 400, "{text}");
    }
}
