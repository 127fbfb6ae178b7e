//! Which provider carries the bytes, and why every other one does not.
//!
//! The default order is `efa` on its fabric `efa`, then `tcp;ofi_rxm`, which is what MPI and NCCL fall back to.
//! Everything else, `efa-direct` and `shm` among it, is used only when asked for by name. Nothing is ever
//! replaced silently: what was asked for and is not there is an error that lists what is.

use std::collections::BTreeSet;
use std::net::IpAddr;

use efa_core::{Caps, Hints, Info};

use crate::units::format_size;

/// What the choice depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Provider asked for, by its full name.
    pub provider: Option<String>,
    /// Fabric asked for.
    pub fabric: Option<String>,
    /// Domain asked for.
    pub domain: Option<String>,
    /// Local address of the control connection: the route to the peer leaves from it.
    pub local: Option<IpAddr>,
    /// Whether both sides run on this host; `None` before the peer is known.
    pub same_host: Option<bool>,
    /// Whether tagged messages are needed.
    pub tagged: bool,
    /// The largest message in bytes.
    pub max_bytes: u64,
    /// Value of FI_PROVIDER, by which libfabric leaves providers out before anybody can ask for them.
    pub filter: Option<String>,
    /// Bytes in /dev/shm, free and in all: shm is not even offered where it has too little room.
    pub shm_bytes: Option<(u64, u64)>,
}

/// One offer of libfabric, as far as the choice goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Provider.
    pub provider: String,
    /// Fabric.
    pub fabric: String,
    /// Domain.
    pub domain: String,
    /// IP address that endpoints are bound to.
    pub source: Option<IpAddr>,
    /// The largest message in bytes.
    pub max_bytes: u64,
}

/// An offer that was not taken, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The offer.
    pub offer: Offer,
    /// Why not.
    pub reason: String,
}

/// The choice.
#[derive(Debug)]
pub struct Choice {
    /// What is used.
    pub info: Info,
    /// What is not, in libfabric's order.
    pub refused: Vec<Refused>,
}

/// Why nothing could be chosen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// A name that no offer has.
    #[error("{what} '{name}' is not offered here: {valid}{hint}")]
    Unknown {
        /// `provider`, `fabric` or `domain`.
        what: &'static str,
        /// The name.
        name: String,
        /// The names that exist, nearest first.
        valid: String,
        /// What to do, for names that are known to be missing for a reason.
        hint: String,
    },
    /// The variable FI_PROVIDER leaves nothing.
    #[error(
        "FI_PROVIDER={value} leaves libfabric without a provider on this host; unset it, or correct it: libfabric's own \
         names are {names} (`fi_info -l` shows which of them this libfabric has){hint}"
    )]
    Filtered {
        /// Its value.
        value: String,
        /// The names that libfabric's providers have, nearest first.
        names: String,
        /// What to do, for names that are known to be missing for a reason.
        hint: &'static str,
    },
    /// Every offer was refused.
    #[error("no fabric can be used: {}", reasons(.refused))]
    NoneLeft {
        /// The offers and the reasons.
        refused: Vec<Refused>,
    },
    /// libfabric itself failed.
    #[error(transparent)]
    Fabric(#[from] efa_core::Error),
}

fn reasons(refused: &[Refused]) -> String {
    if refused.is_empty() {
        return "libfabric offers no reliable datagram endpoint (see `fi_info -t FI_EP_RDM`)".into();
    }
    let mut seen = BTreeSet::new();
    let lines: Vec<_> = refused
        .iter()
        .map(|r| format!("{} ({}, {}): {}", r.offer.provider, r.offer.fabric, r.offer.domain, r.reason))
        .filter(|line| seen.insert(line.clone()))
        .collect();
    lines.join("; ")
}

/// Checks that this host offers anything, and the names of a request, before anybody is waited for.
///
/// # Errors
/// [`SelectError::Unknown`] with the names that exist, [`SelectError::Filtered`] or [`SelectError::NoneLeft`] where
/// there is nothing at all.
pub fn check_names(request: &Request) -> Result<(), SelectError> {
    let offers: Vec<_> = list(request)?.iter().map(offer_of).collect();
    if let Some(error) = filtered(&offers, request).or_else(|| unknown_name(&offers, request)) {
        return Err(error);
    }
    if offers.is_empty() {
        return Err(SelectError::NoneLeft { refused: Vec::new() });
    }
    Ok(())
}

/// Chooses among what libfabric offers.
///
/// # Errors
/// [`SelectError`], with every reason.
pub fn choose(request: &Request) -> Result<Choice, SelectError> {
    let mut infos = list(request)?;
    let bound_to_route = |info: &Info| offer_of(info).source == request.local;
    if let Some(local) = request.local
        && !infos.iter().any(bound_to_route)
    {
        // An address that libfabric does not list by itself, such as 127.0.0.2, can still be asked for.
        let by_name = request.provider.clone().unwrap_or_else(|| DEFAULT_TCP.into());
        let hints = hints(request).provider(by_name).source(local);
        infos.extend(efa_core::get_info(&hints).unwrap_or_default());
    }
    let offers: Vec<_> = infos.iter().map(offer_of).collect();
    let (index, refused) = pick(&offers, request)?;
    Ok(Choice { info: infos.swap_remove(index), refused })
}

const DEFAULT_TCP: &str = "tcp;ofi_rxm";

fn hints(request: &Request) -> Hints {
    Hints::new(if request.tagged { Caps::MSG | Caps::TAGGED } else { Caps::MSG })
}

fn list(request: &Request) -> Result<Vec<Info>, SelectError> {
    // By name first: it spares the providers that were not asked for their look around.
    if let Some(provider) = &request.provider {
        let named = efa_core::get_info(&hints(request).provider(provider));
        if let Ok(infos) = named
            && infos.iter().any(|info| info.provider().eq_ignore_ascii_case(provider))
        {
            return Ok(infos);
        }
    }
    match efa_core::get_info(&hints(request)) {
        Err(efa_core::Error::NoMatch { .. }) => Ok(Vec::new()),
        other => Ok(other?),
    }
}

fn offer_of(info: &Info) -> Offer {
    Offer {
        provider: info.provider(),
        fabric: info.fabric(),
        domain: info.domain(),
        source: info.source_address().map(|a| a.ip().to_canonical()),
        max_bytes: info.max_message_bytes() as u64,
    }
}

/// Picks the best offer: its index, and the others with their reasons.
///
/// # Errors
/// [`SelectError::Unknown`] for a name that nobody has, [`SelectError::Filtered`] where FI_PROVIDER leaves nothing,
/// [`SelectError::NoneLeft`] when all are refused.
pub fn pick(offers: &[Offer], request: &Request) -> Result<(usize, Vec<Refused>), SelectError> {
    if let Some(error) = filtered(offers, request).or_else(|| unknown_name(offers, request)) {
        return Err(error);
    }
    let mut best: Option<(u32, usize)> = None;
    let mut refused = Vec::new();
    let mut refuse = |offer: &Offer, reason: String| refused.push(Refused { offer: offer.clone(), reason });
    for (index, offer) in offers.iter().enumerate() {
        match rank(offer, request) {
            Err(reason) => refuse(offer, reason),
            Ok(rank) if best.is_none_or(|(least, _)| rank < least) => {
                if let Some((_, loser)) = best.replace((rank, index)) {
                    refuse(&offers[loser], format!("{} comes first", offer.provider));
                }
            }
            Ok(_) => refuse(offer, "another offer comes first".into()),
        }
    }
    match best {
        Some((_, index)) => Ok((index, refused)),
        None => Err(SelectError::NoneLeft { refused }),
    }
}

/// The place of an offer in the order, or why it is out of it.
fn rank(offer: &Offer, request: &Request) -> Result<u32, String> {
    let asked = |name: &Option<String>, has: &str| name.as_ref().is_some_and(|n| n.eq_ignore_ascii_case(has));
    let out = |name: &Option<String>, has: &str| name.is_some() && !asked(name, has);
    if out(&request.provider, &offer.provider) {
        return Err(format!("-p {} was asked for", request.provider.as_deref().unwrap_or_default()));
    }
    if out(&request.fabric, &offer.fabric) {
        return Err(format!("-f {} was asked for", request.fabric.as_deref().unwrap_or_default()));
    }
    if out(&request.domain, &offer.domain) {
        return Err(format!("-d {} was asked for", request.domain.as_deref().unwrap_or_default()));
    }
    let by_name = request.provider.is_some();
    let place = match (offer.provider.as_str(), offer.fabric.as_str()) {
        ("efa", "efa") => 0,
        ("efa", fabric) if request.fabric.is_none() => {
            return Err(format!("fabric {fabric} is used only when asked for with -f {fabric}"));
        }
        ("efa", _) => 1,
        (DEFAULT_TCP, _) => 2,
        (provider, _) if !by_name => return Err(format!("used only when asked for with -p '{provider}'")),
        _ => 3,
    };
    if offer.provider.starts_with("shm") && request.same_host == Some(false) {
        return Err("shm reaches processes of this host only, and the peer runs on another".into());
    }
    if let (Some(local), Some(source)) = (request.local, offer.source)
        && local.to_canonical() != source
    {
        return Err(format!("it is bound to {source}, and the route to the peer leaves from {local}"));
    }
    if request.max_bytes > offer.max_bytes {
        let elsewhere = if offer.fabric == "efa-direct" { "; -f efa sends messages of any size" } else { "" };
        return Err(format!(
            "its messages have at most {} bytes, and {} were asked for{elsewhere}",
            offer.max_bytes, request.max_bytes
        ));
    }
    Ok(place)
}

/// Names of libfabric's providers in FI_PROVIDER, from 1.17 on (fi_provider(7)); layered ones are made of them.
const PROVIDERS: [&str; 16] = [
    "cxi", "efa", "lnx", "net", "ofi_rxd", "ofi_rxm", "opx", "psm2", "psm3", "shm", "sockets", "tcp", "ucx", "udp",
    "usnic", "verbs",
];

/// The error where FI_PROVIDER leaves no offer at all.
fn filtered(offers: &[Offer], request: &Request) -> Option<SelectError> {
    let value = request.filter.as_ref().filter(|_| offers.is_empty())?;
    // A list with commas; `^` before it leaves out what it names.
    let first = value.trim_start_matches('^').split(',').next().unwrap_or_default();
    let asks_for_efa = value.split(',').any(|name| name.eq_ignore_ascii_case("efa"));
    Some(SelectError::Filtered {
        value: value.clone(),
        names: nearest_first(PROVIDERS.map(str::to_owned).to_vec(), first).join(", "),
        hint: if asks_for_efa { EFA_HINT } else { "" },
    })
}

const EFA_HINT: &str = "; EFA needs a libfabric with the efa provider (the EFA installer puts one in /opt/amazon/efa) \
                        and an EFA device on this host (`ls /sys/class/infiniband`)";

/// The first name of the request that no offer has.
fn unknown_name(offers: &[Offer], request: &Request) -> Option<SelectError> {
    let provider = |o: &Offer| o.provider.clone();
    let of_provider: Vec<_> = offers
        .iter()
        .filter(|o| request.provider.as_ref().is_none_or(|p| p.eq_ignore_ascii_case(&o.provider)))
        .cloned()
        .collect();
    let what = |what, name: &Option<String>, names: Vec<String>| unknown(what, name, names, request);
    what("provider", &request.provider, offers.iter().map(provider).collect())
        .or_else(|| what("fabric", &request.fabric, of_provider.iter().map(|o| o.fabric.clone()).collect()))
        .or_else(|| what("domain", &request.domain, of_provider.iter().map(|o| o.domain.clone()).collect()))
}

fn unknown(what: &'static str, name: &Option<String>, names: Vec<String>, request: &Request) -> Option<SelectError> {
    let name = name.as_ref()?;
    if names.iter().any(|n| n.eq_ignore_ascii_case(name)) {
        return None;
    }
    let names = nearest_first(names, name);
    let valid =
        if names.is_empty() { "nothing is offered".to_owned() } else { format!("there is {}", names.join(", ")) };
    let mut hint = match (what, name.to_ascii_lowercase().as_str()) {
        ("provider", "efa") => EFA_HINT.to_owned(),
        ("provider", "shm") => no_shm(request.shm_bytes),
        ("provider", "tcp") => {
            "; 'tcp' is the native provider of libfabric 2.x, 'tcp;ofi_rxm' the layered one of all".into()
        }
        _ => String::new(),
    };
    if let Some(value) = &request.filter {
        hint.push_str(&format!("; FI_PROVIDER={value} leaves no others: unset it to have them all"));
    }
    Some(SelectError::Unknown { what, name: name.clone(), valid, hint })
}

/// Why shm is not there: it looks for room first, and is silent when it finds none.
fn no_shm(bytes: Option<(u64, u64)>) -> String {
    let Some((free, total)) = bytes else { return "; shm needs a /dev/shm that can be written".into() };
    format!("; /dev/shm has {} free of {}, and {SHM_NEEDS}", format_size(free), format_size(total))
}

/// What shm takes, and where more comes from.
pub const SHM_NEEDS: &str = "shm makes a file of about 16 MiB there for each endpoint, larger with more cores \
                             (containers: --shm-size, as in `docker run --shm-size 1g`)";

/// The names without repetition, by their distance to the one that was typed.
fn nearest_first(names: Vec<String>, to: &str) -> Vec<String> {
    let mut names: Vec<_> = names.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    names.sort_by_key(|n| strsim::damerau_levenshtein(&n.to_lowercase(), &to.to_lowercase()));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(provider: &str, fabric: &str, domain: &str, source: Option<&str>, max_bytes: u64) -> Offer {
        let source = source.map(|s| s.parse().unwrap());
        Offer { provider: provider.into(), fabric: fabric.into(), domain: domain.into(), source, max_bytes }
    }

    /// What an EFA host offers: efa-direct first, TCP on several interfaces, shm.
    fn efa_host() -> Vec<Offer> {
        vec![
            offer("efa", "efa-direct", "rdmap0s6-rdm", None, 8928),
            offer("efa", "efa", "rdmap0s6-rdm", None, u64::MAX),
            offer("tcp;ofi_rxm", "169.254.0.0/16", "veth1", Some("169.254.3.1"), u64::MAX),
            offer("tcp;ofi_rxm", "172.17.0.0/16", "docker0", Some("172.17.0.1"), u64::MAX),
            offer("tcp;ofi_rxm", "10.0.0.0/24", "ens5", Some("10.0.0.5"), u64::MAX),
            offer("shm", "shm", "shm", None, u64::MAX),
        ]
    }

    fn request(provider: Option<&str>, fabric: Option<&str>) -> Request {
        Request {
            provider: provider.map(Into::into),
            fabric: fabric.map(Into::into),
            local: Some("10.0.0.5".parse().unwrap()),
            same_host: Some(false),
            max_bytes: 64,
            ..Request::default()
        }
    }

    fn picked(offers: &[Offer], request: &Request) -> (String, String) {
        let (index, _) = pick(offers, request).unwrap();
        (offers[index].fabric.clone(), offers[index].domain.clone())
    }

    #[test]
    fn efa_comes_before_efa_direct_and_tcp() {
        let offers = efa_host();
        assert_eq!(picked(&offers, &request(None, None)).0, "efa");
        assert_eq!(picked(&offers, &request(Some("efa"), None)).0, "efa");
        assert_eq!(picked(&offers, &request(Some("efa"), Some("efa-direct"))).0, "efa-direct");
        let (_, refused) = pick(&offers, &request(None, None)).unwrap();
        assert_eq!(refused.len(), 5);
        assert!(refused[0].reason.contains("-f efa-direct"), "{refused:?}");
    }

    #[test]
    fn tcp_is_bound_to_the_route_to_the_peer() {
        let offers = efa_host();
        assert_eq!(picked(&offers, &request(Some("tcp;ofi_rxm"), None)).1, "ens5");
        assert_eq!(picked(&offers[2..], &request(None, None)).1, "ens5");
        let elsewhere = Request { local: Some("10.9.9.9".parse().unwrap()), ..request(None, None) };
        let error = pick(&offers[2..], &elsewhere).unwrap_err().to_string();
        assert!(error.contains("the route to the peer leaves from 10.9.9.9"), "{error}");
    }

    #[test]
    fn shm_needs_a_request_and_a_peer_on_this_host() {
        let offers = efa_host();
        assert!(pick(&offers, &request(Some("shm"), None)).unwrap_err().to_string().contains("another"));
        let here = Request { same_host: Some(true), ..request(Some("shm"), None) };
        assert_eq!(picked(&offers, &here).0, "shm");
        let unasked = Request { same_host: Some(true), ..request(None, None) };
        assert_eq!(picked(&offers[2..], &unasked).1, "ens5");
    }

    #[test]
    fn unknown_names_list_the_valid_ones_nearest_first() {
        let offers = efa_host();
        let text = |r: &Request| pick(&offers, r).unwrap_err().to_string();
        let provider = text(&request(Some("efaa"), None));
        assert!(provider.contains("provider 'efaa'") && provider.contains("there is efa, shm"), "{provider}");
        let fabric = text(&request(Some("efa"), Some("eaf")));
        assert!(fabric.contains("fabric 'eaf'") && fabric.contains("there is efa, efa-direct"), "{fabric}");
        let domain = text(&Request { domain: Some("nosuch".into()), ..request(Some("efa"), None) });
        assert!(domain.contains("domain 'nosuch'") && domain.contains("rdmap0s6-rdm"), "{domain}");
    }

    #[test]
    fn efa_asked_for_and_not_there_is_an_error_with_the_reason() {
        let error = pick(&efa_host()[2..], &request(Some("efa"), None)).unwrap_err().to_string();
        assert!(error.contains("EFA device"), "{error}");
    }

    #[test]
    fn messages_too_long_for_efa_direct_name_what_carries_them() {
        let long = Request { max_bytes: 1 << 20, ..request(Some("efa"), Some("efa-direct")) };
        let error = pick(&efa_host(), &long).unwrap_err().to_string();
        assert!(error.contains("8928") && error.contains("-f efa"), "{error}");
    }

    #[test]
    fn a_variable_that_leaves_nothing_is_the_reason_that_is_given() {
        let request = Request { filter: Some("smh".into()), ..request(Some(DEFAULT_TCP), None) };
        let error = pick(&[], &request).unwrap_err().to_string();
        assert!(error.contains("FI_PROVIDER=smh") && error.contains("names are shm, "), "{error}");
        let efa = Request { filter: Some("efa".into()), ..request.clone() };
        assert!(pick(&[], &efa).unwrap_err().to_string().contains("EFA device"));
        let some = Request { filter: Some("shm".into()), ..request };
        let error = pick(&efa_host()[5..], &some).unwrap_err().to_string();
        assert!(error.contains("there is shm") && error.contains("FI_PROVIDER=shm leaves no others"), "{error}");
    }

    #[test]
    fn shm_that_found_no_room_says_how_much_there_is() {
        let full = Request { shm_bytes: Some((8 << 20, 8 << 20)), ..request(Some("shm"), None) };
        let error = pick(&efa_host()[..5], &full).unwrap_err().to_string();
        assert!(error.contains("/dev/shm has 8 MiB free of 8 MiB") && error.contains("--shm-size"), "{error}");
    }
}
