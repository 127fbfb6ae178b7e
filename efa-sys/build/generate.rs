//! Runs bindgen on the headers beside the library, and compiles the shims that it writes.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bindgen::callbacks::{EnumVariantCustomBehavior, EnumVariantValue, IntKind, ParseCallbacks};

use crate::inventory::Inventory;

/// The public headers, in the order in which they are included. Those that a version lacks are
/// passed over.
pub(crate) const HEADERS: &[&str] = &[
    "fabric.h",
    "fi_errno.h",
    "fi_domain.h",
    "fi_endpoint.h",
    "fi_eq.h",
    "fi_cm.h",
    "fi_tagged.h",
    "fi_rma.h",
    "fi_atomic.h",
    "fi_trigger.h",
    "fi_collective.h",
    "fi_ext.h",
    "fi_ext_efa.h",
    "fi_ext_psm2.h",
    "fi_profile.h",
    "providers/fi_log.h",
    "providers/fi_peer.h",
    "providers/fi_prov.h",
];

/// What bindgen is asked for.
pub(crate) struct Job<'a> {
    pub(crate) include: &'a Path,
    pub(crate) out_dir: &'a Path,
}

/// Writes `bindings.rs` and `shims.c` into the output directory.
pub(crate) fn generate(job: &Job<'_>) -> Result<(), String> {
    let header = write_umbrella(job)?;
    let shims = job.out_dir.join("shims.c");
    let errno = Errno::read(job.include);
    let hidden = Rc::clone(&errno.hidden);
    let builder = bindgen::Builder::default()
        .header(text(&header))
        .clang_arg(format!("-I{}", job.include.display()))
        .allowlist_file(format!("{}/rdma/.*", escape(&text(job.include))))
        .rust_target(msrv())
        .rust_edition(bindgen::RustEdition::Edition2024)
        .use_core()
        .wrap_unsafe_ops(true)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .generate_comments(false)
        .generate_cstr(true)
        // tests/layout.rs asks the C compiler instead, about every field.
        .layout_tests(false)
        .wrap_static_fns(true)
        .wrap_static_fns_path(&shims)
        .parse_callbacks(Box::new(errno))
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()));
    let bindings = without_panic(|| builder.generate().map_err(|error| error.to_string()))?;
    let mut source = bindings.to_string();
    for (name, value) in hidden.borrow().iter() {
        let _ = writeln!(source, "pub const {name}: ::core::ffi::c_int = {value};");
    }
    write(&job.out_dir.join("bindings.rs"), &source)?;
    write(&job.out_dir.join("inventory.rs"), &Inventory::of_bindings(&source).to_rust())
}

/// Runs a part of bindgen, which panics where it finds no libclang, and gives its message instead.
fn without_panic<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(hook);
    outcome.unwrap_or_else(|payload| {
        let message = payload.downcast_ref::<String>().cloned();
        let message = message.or_else(|| payload.downcast_ref::<&str>().map(|s| s.to_string()));
        Err(message.unwrap_or_else(|| "bindgen stopped without a message".to_owned()))
    })
}

/// Compiles the shims into the static library that the crate carries.
pub(crate) fn compile_shims(job: &Job<'_>) -> Result<(), String> {
    cc::Build::new()
        .file(job.out_dir.join("shims.c"))
        .include(job.include)
        // Deprecated functions are bound too, and parameter types are bindgen's spelling of them.
        .warnings(false)
        .flag_if_supported("-Wno-deprecated-declarations")
        .try_compile("efa_sys_shims")
        .map_err(|error| error.to_string())
}

/// The header file that includes the others: the shims need a file, not text, to include.
fn write_umbrella(job: &Job<'_>) -> Result<PathBuf, String> {
    // 2.x's fi_profile.h uses this macro, which went private after 1.x. Its definition follows from
    // its name: the struct that holds `field`, from the field's address.
    let mut source = String::from(
        "#include <stddef.h>\n#ifndef container_of\n#define container_of(ptr, type, field) \\\n    \
         ((type *)((char *)(ptr) - offsetof(type, field)))\n#endif\n",
    );
    for header in HEADERS {
        if job.include.join("rdma").join(header).exists() {
            let _ = writeln!(source, "#include <rdma/{header}>");
        }
    }
    let path = job.out_dir.join("umbrella.h");
    write(&path, &source)?;
    Ok(path)
}

fn write(path: &Path, content: &str) -> Result<(), String> {
    fs::write(path, content).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// `path` as a regular expression that matches only itself.
fn escape(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for c in path.chars() {
        if !(c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-')) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

fn msrv() -> bindgen::RustTarget {
    bindgen::RustTarget::stable(88, 0).unwrap_or_default()
}

/// Gives constants the types that the C interface uses them with.
#[derive(Debug)]
struct Errno {
    names: BTreeSet<String>,
    /// Error codes and options that C declares as enumerators, which bindgen would make unsigned.
    hidden: Rc<RefCell<Vec<(String, i64)>>>,
}

impl Errno {
    /// Takes the names of the error codes from the header that defines them.
    fn read(include: &Path) -> Self {
        let text = fs::read_to_string(include.join("rdma/fi_errno.h")).unwrap_or_default();
        let names = text
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .filter(|word| word.starts_with("FI_E") || *word == "FI_SUCCESS")
            .map(str::to_owned)
            .collect();
        Self { names, hidden: Rc::default() }
    }
}

impl ParseCallbacks for Errno {
    fn int_macro(&self, name: &str, _value: i64) -> Option<IntKind> {
        if self.names.contains(name) {
            Some(IntKind::Int)
        } else if name.ends_with("_VERSION") || !name.starts_with("FI_") {
            None
        } else if name.starts_with("FI_PROV_SPECIFIC_") {
            // Negated in C to make option names, which are int.
            Some(IntKind::Int)
        } else {
            Some(IntKind::U64)
        }
    }

    fn enum_variant_behavior(
        &self,
        enum_name: Option<&str>,
        variant: &str,
        value: EnumVariantValue,
    ) -> Option<EnumVariantCustomBehavior> {
        // Bits of a mask that 2.x makes macros of; constants.rs has them as u64 for any version.
        if enum_name.is_some_and(|name| name.ends_with("fi_mr_mode")) {
            return Some(EnumVariantCustomBehavior::Hide);
        }
        // Options are passed as int, and the EFA provider's are negative.
        if !(self.names.contains(variant) || variant.starts_with("FI_OPT_")) {
            return None;
        }
        let value = match value {
            EnumVariantValue::Signed(value) => value,
            EnumVariantValue::Unsigned(value) => i64::try_from(value).ok()?,
            EnumVariantValue::Boolean(_) => return None,
        };
        self.hidden.borrow_mut().push((variant.to_owned(), value));
        Some(EnumVariantCustomBehavior::Hide)
    }
}
