//! Reports: one strict document, as the committed schema says.

use std::path::Path;

use serde_json::Value;

const SCHEMA: &str = include_str!("../../../docs/efa-report-1.schema.json");

/// Reads a report from text that must be nothing else, and validates it.
#[track_caller]
pub(crate) fn checked(text: &str) -> Value {
    let report: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("no JSON document: {error}\n{text}"));
    let schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is a schema");
    let errors: Vec<String> =
        validator.iter_errors(&report).map(|error| format!("{}: {error}", error.instance_path)).collect();
    assert!(errors.is_empty(), "not as the schema says: {errors:#?}\n{text}");
    report
}

/// Reads the report in a file.
#[track_caller]
pub(crate) fn report_at(path: &Path) -> Value {
    checked(&std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}
