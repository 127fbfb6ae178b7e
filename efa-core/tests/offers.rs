//! Offers and objects of different providers, which this crate keeps apart.

mod common;

use common::{SHM, TCP, offer, skipped};
use efa_core::*;

#[test]
fn offers_of_other_kinds_of_endpoints_are_refused() {
    let others: Vec<Info> = get_all().expect("offers").into_iter().filter(|info| !info.is_rdm()).collect();
    if others.is_empty() {
        return skipped("every provider offers reliable datagrams only");
    }
    for info in others {
        // A fabric is the same for all kinds of endpoints.
        let Ok(fabric) = Fabric::open(&info) else { continue };
        let error = Domain::open(&fabric, &info).expect_err("no reliable datagrams");
        assert!(error.to_string().contains("FI_EP_RDM"), "{error}");
    }
}

#[test]
fn an_offer_made_without_hints_opens_or_says_what_it_wants() {
    for info in get_all().expect("offers").into_iter().filter(Info::is_rdm) {
        let Ok(fabric) = Fabric::open(&info) else { continue };
        match Domain::open(&fabric, &info) {
            Ok(_) | Err(Error::Call { .. }) => {}
            Err(error) => assert!(error.to_string().contains("get_info"), "{error}"),
        }
    }
}

#[test]
fn objects_of_one_provider_refuse_those_of_another() {
    let (Some(tcp), Some(shm)) = (offer(TCP, Caps::MSG), offer(SHM, Caps::MSG)) else { return };
    let fabrics = [&tcp, &shm].map(|info| Fabric::open(info).expect("fabric"));
    assert!(matches!(Domain::open(&fabrics[0], &shm), Err(Error::Invalid { .. })));
    let domains = [(0, &tcp), (1, &shm)].map(|(at, info)| Domain::open(&fabrics[at], info).expect("domain"));
    assert!(matches!(domains[0].endpoint(&shm, &EndpointConfig::new()), Err(Error::Invalid { .. })));

    let pools = domains.each_ref().map(|domain| domain.buffers(&PoolSpec::new(64, 1)).expect("pool"));
    let refused = PostErrorKind::Fabric(Errno::INVAL);
    for (at, info) in [(0, &tcp), (1, &shm)] {
        let mut endpoint = domains[at].endpoint(info, &EndpointConfig::new()).expect("endpoint");
        let me = endpoint.address().expect("address");
        let peer = endpoint.insert(&me).expect("peer");
        let foreign = pools[1 - at].take().expect("a buffer");
        let rejected = endpoint.recv(None, foreign, Token(1)).expect_err("the other's memory");
        assert_eq!(rejected.kind, refused);
        assert_eq!(endpoint.send(peer, rejected.buf, Token(1)).expect_err("the other's memory").kind, refused);
        endpoint.recv(None, pools[at].take().expect("a buffer"), Token(1)).expect("its own memory");
    }
    assert_eq!(pools.map(|pool| pool.available()), [1, 1]);
}
