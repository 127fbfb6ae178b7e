//! Names and versions of exported functions.

/// Defines a function and exports it under a versioned name.
///
/// Rust has no way to give a symbol a version. The function is exported as `sim_NAME`, and the
/// assembler makes the alias `NAME@@VERSION` for it; `versions.map` declares the versions.
macro_rules! verb {
    ($version:literal, $name:ident,
     $(#[$attribute:meta])*
     unsafe fn $rust_name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $rust_name($($arg: $type),*) $(-> $ret)? $body

        std::arch::global_asm!(concat!(
            ".symver ", stringify!($rust_name), ", ", stringify!($name), "@@", $version
        ));
    };
}
