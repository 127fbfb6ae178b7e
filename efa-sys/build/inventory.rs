//! Lists what the bindings contain, for the tests that compare them with the headers and with C.
//!
//! Offsets and addresses are known to rustc only where the names are written out, so the build
//! writes a Rust file that names everything. It is a few hundred lines that only the tests compile.

use std::fmt::Write as _;

/// Names in the bindings.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Inventory {
    pub(crate) functions: Vec<String>,
    /// Integer constants.
    pub(crate) constants: Vec<String>,
    pub(crate) records: Vec<Record>,
}

/// A struct or union.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) keyword: String,
    pub(crate) name: String,
    /// Each field, and the name of its type.
    pub(crate) fields: Vec<(String, String)>,
}

impl Inventory {
    /// Reads bindgen's output, whose formatting is regular: one item or field a line.
    pub(crate) fn of_bindings(source: &str) -> Self {
        let mut inventory = Self::default();
        let mut open: Option<Record> = None;
        for line in source.lines() {
            if line == "}" {
                inventory.records.extend(open.take());
            } else if let Some(record) = &mut open {
                record.fields.extend(field(line));
            } else if let Some(name) = function(line) {
                inventory.functions.push(name);
            } else if let Some(name) = constant(line) {
                inventory.constants.push(name);
            } else {
                open = record(line);
            }
        }
        // Incomplete types are bound as empty ones, and have no layout to compare.
        inventory.records.retain(|record| !record.fields.is_empty());
        inventory
    }

    /// The Rust file: three tables over the crate's public names.
    pub(crate) fn to_rust(&self) -> String {
        let mut text = String::from("pub(crate) const FUNCTIONS: &[(&str, *const ())] = &[\n");
        for name in &self.functions {
            let _ = writeln!(text, "    (\"{name}\", efa_sys::{name} as *const ()),");
        }
        text.push_str("];\npub(crate) const CONSTANTS: &[(&str, i64)] = &[\n");
        for name in &self.constants {
            let _ = writeln!(text, "    (\"{name}\", efa_sys::{name} as i64),");
        }
        text.push_str("];\npub(crate) const LAYOUTS: &[(&str, i64)] = &[\n");
        for record in self.records.iter().filter(|record| record.has_c_name()) {
            self.write_layout(&mut text, record);
        }
        text.push_str("];\n");
        text
    }

    /// Lines that pair a C expression with the value that Rust has for it.
    fn write_layout(&self, text: &mut String, record: &Record) {
        let Record { keyword, name, .. } = record;
        for operator in ["size_of", "align_of"] {
            let c = if operator == "size_of" { "sizeof" } else { "_Alignof" };
            let _ =
                writeln!(text, "    (\"{c}({keyword} {name})\", core::mem::{operator}::<efa_sys::{name}>() as i64),");
        }
        for (field, type_name) in &record.fields {
            // C reaches the members of an anonymous union as if they were the struct's own.
            let members = if field.starts_with("__bindgen_anon") {
                self.members(type_name)
            } else {
                vec![field.trim_end_matches('_')]
            };
            for member in members {
                let _ = writeln!(
                    text,
                    "    (\"offsetof({keyword} {name}, {member})\", core::mem::offset_of!(efa_sys::{name}, {field}) as i64),"
                );
            }
        }
    }

    fn members(&self, union: &str) -> Vec<&str> {
        let found = self.records.iter().find(|record| record.name == union);
        found.map_or_else(Vec::new, |record| record.fields.iter().map(|(name, _)| name.as_str()).collect())
    }
}

impl Record {
    /// Whether C has a name for it too, and it is libfabric's: bindgen numbers unnamed ones.
    fn has_c_name(&self) -> bool {
        (self.name.starts_with("fi_") || self.name.starts_with("fid") || self.name == "iovec")
            && !self.name.contains("__bindgen_ty_")
    }
}

fn function(line: &str) -> Option<String> {
    let rest = line.strip_prefix("    pub fn ")?;
    let name = rest.split('(').next()?;
    // Not the methods of bindgen's own helper types.
    name.starts_with("fi_").then(|| name.to_owned())
}

fn constant(line: &str) -> Option<String> {
    let (name, rest) = line.strip_prefix("pub const ")?.split_once(':')?;
    let text_or_array = rest.contains('&') || rest.contains('[');
    (name.starts_with("FI_") && !text_or_array).then(|| name.to_owned())
}

fn record(line: &str) -> Option<Record> {
    let rest = line.strip_prefix("pub ")?.strip_suffix(" {")?;
    let (keyword, name) = rest.split_once(' ')?;
    matches!(keyword, "struct" | "union").then(|| Record {
        keyword: keyword.to_owned(),
        name: name.to_owned(),
        fields: Vec::new(),
    })
}

fn field(line: &str) -> Option<(String, String)> {
    let (name, rest) = line.strip_prefix("    pub ")?.split_once(": ")?;
    let type_name = rest.trim_end_matches(',');
    (name != "_unused" && name != "_address").then(|| (name.to_owned(), type_name.to_owned()))
}
