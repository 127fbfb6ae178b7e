//! Who owns what, for how long: buffers, endpoints, domains and fabrics dropped, forgotten and closed at
//! awkward moments. The fake libfabric shows the order of events; `messages.rs` has the real ones.

mod fake;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use efa_core::*;
use efa_sys::{FI_EAGAIN, FI_EBUSY, FI_ENOMEM};
use fake::FAKE;

const SLOTS: usize = 8;

struct Rig {
    endpoint: Endpoint,
    peer: Peer,
    pool: BufPool,
    domain: Domain,
    info: Info,
}

fn rig() -> Rig {
    let info = get_info(&Hints::new(Caps::MSG | Caps::TAGGED)).expect("the fake").swap_remove(0);
    assert_eq!(info.provider(), "fake", "the linker took libfabric's symbols");
    let domain = Domain::open(&Fabric::open(&info).unwrap(), &info).unwrap();
    let pool = domain.buffers(&PoolSpec::new(64, SLOTS)).unwrap();
    let mut endpoint = domain.endpoint(&info, &EndpointConfig::new()).unwrap();
    let me = endpoint.address().unwrap();
    let peer = endpoint.insert(&me).unwrap();
    Rig { endpoint, peer, pool, domain, info }
}

impl Rig {
    /// A receive, an owned send and two sends of one shared buffer, all in flight; the share is kept.
    fn fly(&mut self) -> SharedBuf {
        self.endpoint.recv(None, self.pool.take().unwrap(), Token(1)).unwrap();
        self.endpoint.send(self.peer, self.pool.take().unwrap(), Token(2)).unwrap();
        let shared = self.pool.take().unwrap().into_shared();
        self.endpoint.send(self.peer, shared.clone(), Token(3)).unwrap();
        self.endpoint.send(self.peer, shared.clone(), Token(4)).unwrap();
        assert_eq!((self.endpoint.in_flight(), self.pool.available()), (4, SLOTS - 3));
        shared
    }
}

/// Counts the free buffers while the endpoint is being closed, and uses all memory in flight then.
fn watch_close(pool: &BufPool) -> Rc<Cell<Option<usize>>> {
    let free_at_close = Rc::new(Cell::new(None));
    let (seen, pool) = (free_at_close.clone(), pool.clone());
    FAKE.with(|fake| {
        *fake.on_close.borrow_mut() = Some(Box::new(move |flights| {
            flights.iter().for_each(|flight| {
                flight.touch();
            });
            seen.set(Some(pool.available()));
        }));
    });
    free_at_close
}

fn closed() -> Vec<&'static str> {
    FAKE.with(|fake| fake.closed.borrow().clone())
}

#[test]
fn dropping_an_endpoint_frees_buffers_in_flight_after_it_is_closed() {
    let mut rig = rig();
    let shared = rig.fly();
    let free_at_close = watch_close(&rig.pool);
    drop(rig.endpoint);
    assert_eq!(free_at_close.get(), Some(SLOTS - 3), "a buffer was freed before fi_close(endpoint) returned");
    assert_eq!(rig.pool.available(), SLOTS - 1, "two buffers, each once");
    assert_eq!(closed(), ["endpoint", "queue", "address vector"]);
    drop(shared.try_into_buf().expect("both shares in flight are gone"));
    assert_eq!(rig.pool.available(), SLOTS);
}

#[test]
fn closing_an_endpoint_hands_every_payload_back_after_it_is_closed() {
    let mut rig = rig();
    let shared = rig.fly();
    FAKE.with(|fake| fake.finish());
    let free_at_close = watch_close(&rig.pool);
    let payloads = rig.endpoint.close(Duration::ZERO).expect("close");
    assert_eq!(free_at_close.get(), Some(SLOTS - 3));
    assert_eq!((payloads.len(), rig.pool.available()), (4, SLOTS - 3));
    let shared = shared.try_into_buf().expect_err("two of the payloads are shares of it");
    drop(payloads);
    drop(shared.try_into_buf().expect("the last share"));
    assert_eq!(rig.pool.available(), SLOTS);
}

#[test]
fn closing_waits_for_operations_that_finish_in_time() {
    let mut rig = rig();
    rig.endpoint.send(rig.peer, rig.pool.take().unwrap(), Token(1)).unwrap();
    rig.endpoint.send(rig.peer, rig.pool.take().unwrap(), Token(2)).unwrap();
    FAKE.with(|fake| {
        fake.finish();
        fake.fail(FI_EBUSY);
    });
    let at_close = Rc::new(Cell::new(None));
    let seen = at_close.clone();
    FAKE.with(|fake| *fake.on_close.borrow_mut() = Some(Box::new(move |flights| seen.set(Some(flights.len())))));
    let payloads = rig.endpoint.close(Duration::MAX).expect("close");
    assert_eq!((payloads.len(), at_close.get()), (2, Some(0)));
}

#[test]
fn a_forgotten_endpoint_leaks_its_buffers_and_keeps_everything_they_need() {
    let mut rig = rig();
    let shared = rig.fly();
    let Rig { endpoint, pool, domain, .. } = rig;
    fake::forget(endpoint);
    assert_eq!(pool.available(), SLOTS - 3);
    let shared = shared.try_into_buf().expect_err("two operations in flight hold it");
    drop((shared, pool, domain));
    // The provider goes on using what it was given.
    FAKE.with(|fake| {
        assert_eq!(fake.flights.borrow().len(), 4);
        fake.flights.borrow().iter().for_each(|flight| {
            flight.touch();
        });
    });
    assert!(closed().is_empty(), "{:?}", closed());
}

#[test]
fn an_endpoint_that_cannot_be_closed_leaks_its_buffers_instead_of_freeing_them() {
    for close in [false, true] {
        let mut rig = rig();
        let shared = rig.fly();
        FAKE.with(|fake| fake.close.set(-FI_EBUSY));
        if close {
            let error = rig.endpoint.close(Duration::ZERO).expect_err("busy");
            assert!(error.to_string().contains("fi_close"), "{error}");
        } else {
            drop(rig.endpoint);
        }
        assert_eq!(rig.pool.available(), SLOTS - 3, "buffers were freed under an open endpoint");
        shared.try_into_buf().expect_err("two operations in flight hold it");
        drop((rig.pool, rig.domain));
        FAKE.with(|fake| {
            fake.flights.borrow_mut().drain(..).for_each(|flight| {
                flight.touch();
                fake::leaked(flight.context);
            });
            fake.close.set(0);
        });
        assert!(!closed().contains(&"registration"), "{:?}", closed());
    }
}

#[test]
fn a_refused_post_gives_its_buffer_back_and_changes_nothing() {
    let mut rig = rig();
    for (code, kind) in [
        (-FI_EAGAIN, PostErrorKind::WouldBlock),
        (-FI_ENOMEM, PostErrorKind::Fabric(Errno::NOMEM)),
        (-4321, PostErrorKind::Fabric(Errno::new(4321))),
        // A positive value breaks the contract; it is no success.
        (4321, PostErrorKind::Fabric(Errno::new(4321))),
    ] {
        FAKE.with(|fake| fake.post.set(code as isize));
        let mut buf = rig.pool.take().unwrap();
        buf.fill(0x5A);
        let rejected = rig.endpoint.send(rig.peer, buf, Token(1)).expect_err("refused");
        assert_eq!(rejected.kind, kind);
        let buf = rejected.buf.into_buf().expect("its own buffer");
        let rejected = rig.endpoint.recv(None, buf, Token(1)).expect_err("refused");
        assert_eq!(rejected.kind, kind);
        let shared = rejected.buf.into_shared();
        let rejected = rig.endpoint.send_tagged(rig.peer, shared.clone(), 1, Token(1)).expect_err("refused");
        assert_eq!((rejected.kind, rig.endpoint.inject(rig.peer, b"x")), (kind, Err(kind)));
        let shared = shared.try_into_buf().expect_err("the rejection holds a share");
        // Dropped, a rejection gives the buffer to the pool.
        drop(rejected);
        assert!(shared.try_into_buf().expect("the last share").iter().all(|byte| *byte == 0x5A));
        assert_eq!((rig.endpoint.in_flight(), rig.pool.available()), (0, SLOTS));
    }
    FAKE.with(|fake| fake.post.set(0));
    rig.endpoint.send(rig.peer, rig.pool.take().unwrap(), Token(1)).expect("room again");
}

#[test]
fn completions_that_nobody_took_give_their_buffers_back() {
    let mut rig = rig();
    let shared = rig.fly();
    let mut batch = Batch::new();
    FAKE.with(|fake| (0..3).for_each(|_| fake.finish()));
    assert_eq!(rig.endpoint.poll(&mut batch).expect("poll"), 3);
    let taken = batch.next().expect("the first");
    assert_eq!((taken.token, batch.len(), rig.pool.available()), (Token(1), 2, SLOTS - 3));
    // The next poll drops what is left, the end of the batch what came then.
    FAKE.with(|fake| fake.finish());
    assert_eq!(rig.endpoint.poll(&mut batch).expect("poll"), 1);
    assert_eq!(rig.pool.available(), SLOTS - 2);
    drop(batch);
    drop(shared.try_into_buf().expect("the last share"));
    drop(taken);
    assert_eq!((rig.endpoint.in_flight(), rig.pool.available()), (0, SLOTS));
}

#[test]
fn a_failed_operation_gives_its_buffer_back_and_its_error_entry_was_zeroed() {
    let mut rig = rig();
    let mut batch = Batch::new();
    // Providers differ in the sign; the code is what counts.
    for err in [FI_ENOMEM, -FI_ENOMEM] {
        rig.endpoint.recv(None, rig.pool.take().unwrap(), Token(5)).unwrap();
        FAKE.with(|fake| fake.fail(err));
        assert_eq!(rig.endpoint.poll(&mut batch).expect("poll"), 1);
        let done = batch.next().expect("the failure");
        let error = done.status.expect_err("failed");
        assert_eq!((error.errno(), error.provider_code(), error.provider_text()), (Errno::NOMEM, 7, ""));
        assert_eq!(done.token, Token(5));
        drop(done.buf);
        assert_eq!((rig.pool.available(), FAKE.with(|fake| fake.entry_was_zero.take())), (SLOTS, Some(true)));
    }
}

#[test]
fn errors_outside_of_any_operation_are_reported_and_touch_nothing() {
    let mut rig = rig();
    let shared = rig.fly();
    let mut batch = Batch::new();
    let outside = efa_sys::fi_cq_err_entry { err: FI_ENOMEM, ..Default::default() };
    FAKE.with(|fake| fake.errors.borrow_mut().push_back(outside));
    let error = rig.endpoint.poll(&mut batch).expect_err("an inject failed");
    assert!(matches!(error, Error::Unattributed(_)) && error.errno() == Some(Errno::NOMEM), "{error}");
    assert_eq!((rig.endpoint.in_flight(), rig.pool.available()), (4, SLOTS - 3));
    drop(shared);
}

#[test]
fn a_completion_of_nothing_in_flight_is_an_error_and_no_buffer() {
    let mut rig = rig();
    let mut batch = Batch::new();
    rig.endpoint.send(rig.peer, rig.pool.take().unwrap(), Token(1)).unwrap();
    let context = FAKE.with(|fake| fake.flights.borrow()[0].context);
    FAKE.with(|fake| fake.finish());
    assert_eq!(rig.endpoint.poll(&mut batch).expect("poll"), 1);
    // Twice, null, inside a slot, far away.
    for wrong in [context, std::ptr::null_mut(), context.wrapping_byte_add(8), context.wrapping_byte_add(1 << 20)] {
        let entry = efa_sys::fi_cq_tagged_entry { op_context: wrong, ..Default::default() };
        FAKE.with(|fake| fake.queue.borrow_mut().push_back(entry));
        let error = rig.endpoint.poll(&mut batch).expect_err("spurious");
        assert!(matches!(error, Error::Spurious { .. }), "{error}");
    }
    drop(batch);
    assert_eq!((rig.endpoint.in_flight(), rig.pool.available()), (0, SLOTS));
}

#[test]
fn completions_around_one_of_nothing_are_kept() {
    let mut rig = rig();
    let shared = rig.fly();
    let mut batch = Batch::new();
    FAKE.with(|fake| {
        fake.finish();
        fake.finish();
        fake.queue.borrow_mut().insert(1, efa_sys::fi_cq_tagged_entry::default());
        fake.finish();
        fake.queue.borrow_mut().insert(3, efa_sys::fi_cq_tagged_entry::default());
        fake.finish();
    });
    let error = rig.endpoint.poll(&mut batch).expect_err("spurious");
    assert!(matches!(error, Error::Spurious { .. }), "{error}");
    let tokens: Vec<Token> = batch.by_ref().map(|done| done.token).collect();
    assert_eq!(tokens, [Token(1), Token(2), Token(3), Token(4)]);
    drop(shared);
    assert_eq!((rig.endpoint.in_flight(), rig.pool.available()), (0, SLOTS));
}

#[test]
fn an_operation_that_failed_is_dropped_with_its_batch_too() {
    let mut rig = rig();
    let mut batch = Batch::new();
    for take in [false, true] {
        rig.endpoint.send(rig.peer, rig.pool.take().unwrap(), Token(1)).unwrap();
        FAKE.with(|fake| fake.fail(FI_EBUSY));
        assert_eq!((rig.endpoint.poll(&mut batch).expect("poll"), batch.len(), batch.is_empty()), (1, 1, false));
        if take {
            assert!(batch.next().expect("the failure").status.is_err());
        }
        assert_eq!(rig.endpoint.poll(&mut batch).expect("poll"), 0);
        assert_eq!((batch.len(), batch.is_empty(), rig.pool.available()), (0, true, SLOTS));
        assert!(batch.next().is_none());
    }
}

#[test]
fn a_buffer_outlives_everything_it_came_from() {
    let Rig { endpoint, pool, domain, info, .. } = rig();
    let mut buf = pool.take().unwrap();
    drop((endpoint, pool, domain, info));
    assert_eq!(closed(), ["endpoint", "queue", "address vector"], "the buffer keeps registration and domain");
    buf.fill(7);
    let shared = buf.into_shared();
    let share = shared.clone();
    drop(shared);
    assert!(share.iter().all(|byte| *byte == 7));
    drop(share);
    assert_eq!(closed()[3..], ["registration", "domain", "fabric"]);
}

#[test]
fn a_pool_may_go_before_its_buffers_in_flight() {
    let mut rig = rig();
    let shared = rig.fly();
    let Rig { endpoint, pool, domain, .. } = rig;
    drop((shared, pool, domain));
    assert!(closed().is_empty());
    FAKE.with(|fake| {
        fake.flights.borrow().iter().for_each(|flight| {
            flight.touch();
        });
    });
    drop(endpoint);
    assert_eq!(closed(), ["endpoint", "queue", "address vector", "registration", "domain", "fabric"]);
}

#[test]
fn a_domain_dropped_with_children_alive_stays_open_for_them_and_is_closed_once() {
    let mut rig = rig();
    drop(rig.domain.clone());
    drop(rig.domain);
    assert!(closed().is_empty());
    // The children work on.
    rig.endpoint.send(rig.peer, rig.pool.take().unwrap(), Token(1)).unwrap();
    FAKE.with(|fake| fake.finish());
    assert_eq!(rig.endpoint.poll(&mut Batch::new()).expect("poll"), 1);
    drop(rig.pool);
    drop(rig.endpoint);
    let closed = closed();
    assert_eq!(closed.iter().filter(|name| **name == "domain").count(), 1, "{closed:?}");
    assert_eq!(closed[closed.len() - 2..], ["domain", "fabric"]);
}

#[test]
fn an_exhausted_pool_has_none_and_refills() {
    let rig = rig();
    let mut bufs: Vec<Buf> = std::iter::from_fn(|| rig.pool.take()).collect();
    assert_eq!((bufs.len(), rig.pool.available()), (SLOTS, 0));
    // No two share a byte.
    for (number, buf) in bufs.iter_mut().enumerate() {
        buf.fill(number as u8);
    }
    assert!(bufs.iter().enumerate().all(|(number, buf)| buf.iter().all(|byte| *byte == number as u8)));
    drop(bufs);
    assert_eq!(rig.pool.available(), SLOTS);
}

#[test]
fn shares_are_counted_across_threads_and_the_last_one_gives_the_buffer_back_once() {
    let rig = rig();
    for round in 0..50u8 {
        let mut buf = rig.pool.take().unwrap();
        buf.fill(round);
        let shared = buf.into_shared();
        let bufs: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let share = shared.clone();
                    scope.spawn(move || {
                        (0..100).for_each(|_| assert!(share.clone().iter().all(|byte| *byte == round)));
                        usize::from(Payload::from(share).into_buf().expect_err("a share").try_into_buf().is_ok())
                    })
                })
                .collect();
            // While this one is held nobody else's is the last.
            let others: usize = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
            assert_eq!(others, 0, "a buffer that is shared was handed out as owned");
            others + usize::from(shared.try_into_buf().is_ok())
        });
        assert_eq!((bufs, rig.pool.available()), (1, SLOTS));
    }
}

#[test]
fn handles_are_one_word_and_keep_length_and_kind_on_every_way() {
    assert_eq!([size_of::<Buf>(), size_of::<SharedBuf>(), size_of::<Payload>()], [size_of::<usize>(); 3]);
    let rig = rig();
    let mut buf = rig.pool.take().unwrap();
    buf.set_len(3);
    buf.copy_from_slice(b"abc");
    let buf = Payload::from(buf).into_buf().expect("owned");
    let payload = Payload::from(buf.into_shared());
    assert_eq!((&payload[..], format!("{payload:?}").contains("shared, ")), (&b"abc"[..], true));
    let buf = payload.into_buf().expect_err("a share").try_into_buf().expect("the only one");
    assert_eq!((&buf[..], buf.capacity()), (&b"abc"[..], 64));
    drop(buf);
    let again: Vec<Buf> = std::iter::from_fn(|| rig.pool.take()).collect();
    assert!(again.len() == SLOTS && again.iter().all(|buf| buf.len() == 64), "a taken buffer has its full length");
}

#[test]
fn a_panic_while_operations_are_in_flight_frees_after_the_close() {
    let mut rig = rig();
    let free_at_close = watch_close(&rig.pool);
    let pool = rig.pool.clone();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _shared = rig.fly();
        std::panic::resume_unwind(Box::new("a caller's own panic"));
    }));
    assert!(panicked.is_err());
    assert_eq!((free_at_close.get(), pool.available()), (Some(SLOTS - 2 - 1), SLOTS));
}

#[test]
fn closing_keeps_what_a_failing_poll_gave() {
    let mut rig = rig();
    let shared = rig.fly();
    FAKE.with(|fake| {
        (0..4).for_each(|_| fake.finish());
        fake.queue.borrow_mut().insert(2, efa_sys::fi_cq_tagged_entry::default());
    });
    let payloads = rig.endpoint.close(Duration::MAX).expect("close");
    assert_eq!((payloads.len(), rig.pool.available()), (4, SLOTS - 3));
    drop((payloads, shared));
    assert_eq!(rig.pool.available(), SLOTS);
}

#[test]
fn a_registration_that_cannot_be_closed_leaks_its_memory_instead_of_unmapping_it() {
    let Rig { mut endpoint, peer, pool, domain, .. } = rig();
    endpoint.send(peer, pool.take().unwrap(), Token(1)).unwrap();
    let flight = FAKE.with(|fake| fake.flights.borrow()[0]);
    FAKE.with(|fake| {
        fake.finish();
        fake.close_registration.set(-FI_EBUSY);
    });
    drop((endpoint, pool, domain));
    assert!(!closed().contains(&"registration"), "{:?}", closed());
    let mut resident = 0;
    // The kernel says without a fault whether anything is mapped there.
    let page = flight.start.map_addr(|address| address & !4095);
    // SAFETY: mincore writes one byte for each page, and reads nothing of it.
    let mapped = unsafe { libc::mincore(page.cast(), 4096, &mut resident) };
    assert_eq!(mapped, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn lengths_past_the_end_of_a_buffer_are_cut() {
    let mut rig = rig();
    let mut batch = Batch::new();
    for failed in [false, true] {
        rig.endpoint.recv(None, rig.pool.take().unwrap(), Token(1)).unwrap();
        FAKE.with(|fake| match failed {
            false => {
                fake.finish();
                fake.queue.borrow_mut()[0].len = usize::MAX;
            }
            true => {
                fake.fail(FI_EBUSY);
                fake.errors.borrow_mut()[0].len = usize::MAX;
            }
        });
        assert_eq!(rig.endpoint.poll(&mut batch).expect("poll"), 1);
        let done = batch.next().expect("the receive");
        assert_eq!((done.len, done.buf[..done.len].len(), done.status.is_err()), (64, 64, failed));
    }
}

#[test]
fn buffers_of_another_domain_are_refused() {
    let (mut here, there) = (rig(), rig());
    let refused = PostErrorKind::Fabric(Errno::INVAL);
    let rejected = here.endpoint.send(here.peer, there.pool.take().unwrap(), Token(1)).expect_err("foreign");
    assert_eq!(rejected.kind, refused);
    let buf = rejected.buf.into_buf().expect("its own buffer");
    let rejected = here.endpoint.recv(None, buf, Token(1)).expect_err("foreign");
    assert_eq!(rejected.kind, refused);
    let rejected = here.endpoint.recv_tagged(None, rejected.buf, 1, 0, Token(1)).expect_err("foreign");
    assert_eq!(rejected.kind, refused);
    let shared = rejected.buf.into_shared();
    let rejected = here.endpoint.send_tagged(here.peer, shared.clone(), 1, Token(1)).expect_err("foreign");
    assert_eq!(rejected.kind, refused);
    drop((rejected, shared));
    assert_eq!((here.endpoint.in_flight(), there.pool.available()), (0, SLOTS));
    assert!(FAKE.with(|fake| fake.flights.borrow().is_empty()));
    here.endpoint.send(here.peer, here.pool.take().unwrap(), Token(1)).expect("a buffer of its own domain");
}

#[test]
fn tables_that_an_endpoint_lacks_are_never_called() {
    FAKE.with(|fake| fake.tables.set([true, false]));
    let mut rig = rig();
    let lacking = PostErrorKind::Fabric(Errno::OPNOTSUPP);
    let rejected = rig.endpoint.send_tagged(rig.peer, rig.pool.take().unwrap(), 1, Token(1)).expect_err("no table");
    assert_eq!(rejected.kind, lacking);
    let buf = rejected.buf.into_buf().expect("its own buffer");
    assert_eq!(rig.endpoint.recv_tagged(None, buf, 1, 0, Token(1)).expect_err("no table").kind, lacking);
    assert_eq!(rig.endpoint.inject_tagged(rig.peer, b"x", 1), Err(lacking));
    assert_eq!((rig.endpoint.in_flight(), rig.pool.available()), (0, SLOTS));

    FAKE.with(|fake| fake.tables.set([false, true]));
    let error = rig.domain.endpoint(&rig.info, &EndpointConfig::new()).expect_err("no messages");
    assert_eq!(error.errno(), Some(Errno::OPNOTSUPP));
    assert_eq!(closed(), ["endpoint", "queue", "address vector"]);
}

#[test]
fn the_depth_is_bounded_where_a_provider_names_no_sizes() {
    FAKE.with(|fake| {
        fake.offer.set(|offer| {
            // SAFETY: the fake's offers have all attribute structures.
            unsafe { (*offer.tx_attr).size = 0 };
            // SAFETY: as above.
            unsafe { (*offer.rx_attr).size = 0 };
        });
    });
    let rig = rig();
    let config = EndpointConfig::new().depth_limit(usize::MAX).peers(usize::MAX);
    assert_eq!(rig.domain.endpoint(&rig.info, &config).expect("endpoint").depth(), 1 << 18);
}

#[test]
fn offers_that_ask_for_more_than_is_done_are_refused() {
    fn set_domain(offer: &mut efa_sys::fi_info, change: impl FnOnce(&mut efa_sys::fi_domain_attr)) {
        // SAFETY: the fake's offers have all attribute structures.
        change(unsafe { &mut *offer.domain_attr });
    }
    fn rename(name: *mut std::ffi::c_char) {
        // SAFETY: libfabric allocated the name, whose first byte stays a letter.
        unsafe { name.write(b'm' as _) };
    }
    type Change = fn(&mut efa_sys::fi_info);
    let good = rig();
    let fabric = Fabric::open(&good.info).unwrap();
    let bad: [(&str, Change); 5] = [
        ("FI_EP_RDM", |offer| {
            // SAFETY: as above.
            let ep = unsafe { &mut *offer.ep_attr };
            ep.type_ = efa_sys::FI_EP_MSG as _;
        }),
        ("threading", |offer| set_domain(offer, |domain| domain.threading = efa_sys::FI_THREAD_DOMAIN as _)),
        ("threading", |offer| set_domain(offer, |domain| domain.threading = efa_sys::FI_THREAD_UNSPEC as _)),
        ("mode 0x", |offer| offer.mode |= efa_sys::FI_MSG_PREFIX),
        ("mr_mode", |offer| set_domain(offer, |domain| domain.mr_mode |= efa_sys::FI_MR_ENDPOINT as std::ffi::c_int)),
    ];
    for (word, change) in bad {
        FAKE.with(|fake| fake.offer.set(change));
        let info = get_info(&Hints::new(Caps::MSG)).expect("the fake").swap_remove(0);
        for error in [
            Domain::open(&fabric, &info).expect_err(word),
            good.domain.endpoint(&info, &EndpointConfig::new()).expect_err(word),
        ] {
            assert!(matches!(error, Error::Invalid { .. }) && error.to_string().contains(word), "{error}");
        }
    }
    let error_of = |change: Change, open: &dyn Fn(&Info) -> Result<()>| {
        FAKE.with(|fake| fake.offer.set(change));
        let info = get_info(&Hints::new(Caps::MSG)).expect("the fake").swap_remove(0);
        open(&info).expect_err("a stranger's offer").to_string()
    };
    let open_endpoint = |info: &Info| good.domain.endpoint(info, &EndpointConfig::new()).map(drop);
    let error = error_of(|offer| set_domain(offer, |domain| rename(domain.name)), &open_endpoint);
    assert!(error.contains("make"), "{error}");
    // SAFETY: as above.
    let rename_provider = |offer: &mut efa_sys::fi_info| rename(unsafe { &*offer.fabric_attr }.prov_name);
    for open in [&open_endpoint as &dyn Fn(&Info) -> Result<()>, &|info| Domain::open(&fabric, info).map(drop)] {
        let error = error_of(rename_provider, open);
        assert!(error.contains("make fake"), "{error}");
    }
}
