//! What the programs do before anything else: a module of each, because a library must not do it to its users.

use std::mem::MaybeUninit;

/// Variables of libfabric that the programs set where the user has not, with the reason for each.
const PROVIDER_DEFAULTS: [(&str, &str); 1] = [
    // ofi_rxm fills 4096 receive buffers of 16 KiB for each endpoint, 64 MiB, before the first message. A pair of
    // processes with one message under way at a time needs a few.
    ("FI_OFI_RXM_MSG_RX_SIZE", "128"),
];

/// Runs before the constructors of shared libraries, one of which needs 0.2 s and installs handlers that end the
/// process with status 1 (libinfinipath, which Debian's libfabric is linked with). Blocked, a signal waits until the
/// program's own thread takes it.
#[used]
#[unsafe(link_section = ".preinit_array")]
static BLOCK_SIGNALS: extern "C" fn() = block_signals;

extern "C" fn block_signals() {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the set is initialised, the signal exists.
        unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    }
    // SAFETY: the set is initialised; the old mask is not wanted. No other thread exists.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) };
}

/// Prepares this process: variables for the providers, and the signals of crashes as the system has them.
///
/// # Safety
///
/// No other thread may run: the environment of a process is not protected against reading while it is
/// written (`setenv(3)`). Right at the beginning of `main` that holds.
pub(crate) unsafe fn prepare() {
    for (name, value) in PROVIDER_DEFAULTS {
        if std::env::var_os(name).is_none() {
            // SAFETY: the caller says that no other thread runs.
            unsafe { std::env::set_var(name, value) };
        }
    }
    // The same library ends crashes with status 1, which here means wrong data, and leaves a file behind.
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGABRT] {
        // SAFETY: the default action of an existing signal.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // A file that may not grow is an error of its write, to be told, and not the end of the process.
    // SAFETY: ignoring an existing signal.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
