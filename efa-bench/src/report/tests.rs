use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::record::RunSamples;
use crate::stats::{EndedBy, PointResult};

fn schema_text() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/efa-report-1.schema.json");
    fs::read_to_string(&path).expect("the schema is in the repository")
}

/// The committed schema, compiled.
fn schema() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(&schema_text()).expect("the schema is JSON");
    jsonschema::draft202012::meta::validate(&schema).expect("the schema is a schema");
    jsonschema::draft202012::new(&schema).expect("the schema compiles")
}

/// Every key of the report that the schema does not describe, by its path.
fn undescribed(value: &Value, schema: &Value, root: &Value, path: &str, found: &mut Vec<String>) {
    let schema = match schema["$ref"].as_str() {
        Some(name) => root.pointer(&name[1..]).expect("references lead somewhere"),
        None => schema,
    };
    for key in ["anyOf", "oneOf"] {
        if let Some(branches) = schema[key].as_array() {
            let mut best: Option<Vec<String>> = None;
            for branch in branches {
                let mut tried = Vec::new();
                undescribed(value, branch, root, path, &mut tried);
                if best.as_ref().is_none_or(|b| tried.len() < b.len()) {
                    best = Some(tried);
                }
            }
            found.extend(best.unwrap_or_default());
            return;
        }
    }
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let path = format!("{path}/{key}");
                if let Some(known) = schema["properties"].get(key) {
                    undescribed(field, known, root, &path, found);
                } else if !schema["additionalProperties"].is_object() {
                    found.push(path);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                undescribed(item, &schema["items"], root, path, found);
            }
        }
        _ => {}
    }
}

#[test]
fn the_schema_describes_every_field() {
    let root: Value = serde_json::from_str(&schema_text()).unwrap();
    let mut report = fixture::complete();
    let environment = Environment::collect(Path::new("/"));
    report.environment = Pair { local: Some(environment.clone()), peer: Some(environment) };
    let mut found = Vec::new();
    undescribed(&value(&report), &root, &root, "", &mut found);
    assert!(found.is_empty(), "not in the schema: {found:?}");
}

fn value(report: &Report) -> Value {
    serde_json::from_str(&report.to_json().unwrap()).unwrap()
}

#[track_caller]
fn assert_valid(report: &Report) {
    let problems: Vec<String> =
        schema().iter_errors(&value(report)).map(|error| format!("{}: {error}", error.instance_path)).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_complete_report_is_valid() {
    assert_valid(&fixture::complete());
}

#[test]
fn a_report_with_this_hosts_environment_is_valid() {
    let mut report = fixture::complete();
    let environment = Environment::collect(Path::new("/"));
    report.environment = Pair { local: Some(environment.clone()), peer: Some(environment) };
    assert_valid(&report);
    assert_eq!(Report::from_json(&report.to_json().unwrap()).unwrap(), report);
}

#[test]
fn an_interrupted_report_is_valid_and_keeps_its_points() {
    let report = fixture::interrupted();
    assert_valid(&report);
    let value = value(&report);
    assert_eq!(value["outcome"]["status"], "partial");
    assert_eq!(value["points"][1]["ended_by"], "interrupted");
    assert_eq!(value["points"][1]["median_ci_ns"], Value::Null, "three samples have no interval");
}

#[test]
fn a_report_of_nothing_but_an_error_is_valid() {
    let report = fixture::failed();
    assert_valid(&report);
    assert_eq!(value(&report)["points"], json!([]));
}

#[test]
fn a_report_reads_back_as_it_was() {
    for report in [fixture::complete(), fixture::interrupted(), fixture::failed()] {
        assert_eq!(Report::from_json(&report.to_json().unwrap()).unwrap(), report);
    }
}

#[test]
fn another_schema_is_refused_by_its_name() {
    let text = fixture::failed().to_json().unwrap().replace(SCHEMA, "efa-report/9");
    assert!(Report::from_json(&text).unwrap_err().to_string().contains("efa-report/9"));
    assert!(matches!(Report::from_json("{}"), Err(ReportError::Read(_))));
}

#[test]
fn the_schema_refuses_what_is_not_a_report() {
    let (schema, good) = (schema(), value(&fixture::complete()));
    assert!(schema.is_valid(&good));
    for (path, wrong) in [
        ("/schema", json!("efa-report/2")),
        ("/simulated", json!("no")),
        ("/run", Value::Null),
        ("/run/started", json!("yesterday")),
        ("/run/elapsed_s", json!(-1)),
        ("/run/plan/sizes_bytes", json!(["64"])),
        ("/run/sides/local/role", json!("observer")),
        ("/points", json!({})),
        ("/points/0/size_bytes", json!("64")),
        ("/points/0/size_bytes", json!(-64)),
        ("/points/0/iterations", json!(1.5)),
        ("/points/0/half_rtt_ns/p50", Value::Null),
        ("/points/0/half_rtt_ns", Value::Null),
        ("/points/0/median_ci_ns", json!([1.0])),
        ("/points/0/histogram", json!("not base64!")),
        ("/points/0/ended_by", json!("boredom")),
        ("/warnings/0", json!("a text")),
        ("/outcome/status", json!("done")),
        ("/outcome/reason", json!("complete, with a reason")),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap_or_else(|| panic!("{path} is in the report")) = wrong;
        assert!(!schema.is_valid(&bad), "{path} was accepted");
    }
    for (object, key) in [("", "outcome"), ("/points/0", "half_rtt_ns"), ("/run", "provider")] {
        let mut bad = good.clone();
        bad.pointer_mut(object).unwrap().as_object_mut().unwrap().remove(key);
        assert!(!schema.is_valid(&bad), "{object} without {key} was accepted");
    }
}

#[test]
fn a_failed_outcome_needs_a_reason() {
    let mut bad = value(&fixture::failed());
    bad["outcome"]["reason"] = Value::Null;
    assert!(!schema().is_valid(&bad));
}

#[test]
fn a_point_without_samples_has_null_and_a_reason() {
    let mut samples = RunSamples::new();
    samples.invalid = 3;
    let result = PointResult {
        op: "tagged".to_owned(),
        size_bytes: 8,
        samples,
        elapsed: std::time::Duration::ZERO,
        verified: None,
        ended_by: EndedBy::Interrupted,
    };
    let point = Point::new(&result, &[99.99]);
    let mut report = fixture::failed();
    report.points.push(point);
    assert_valid(&report);
    let point = &value(&report)["points"][0];
    for key in ["half_rtt_ns", "bytes_per_sec", "messages_per_sec", "histogram", "median_ci_ns"] {
        assert_eq!(point[key], Value::Null, "{key}");
    }
    assert_eq!(point["reason"], "no valid sample (3 were invalid)");
    assert_eq!(point["invalid_samples"], 3);
}

#[test]
fn no_figure_that_is_not_finite_reaches_the_document() {
    let mut report = fixture::complete();
    let mut clock = report.run.clock.clone().unwrap();
    clock.drift_ppm = Some(f64::NAN);
    clock.resolution_ns = Some(f64::INFINITY);
    report.run.set_clock(clock);
    assert_valid(&report);
    let clock = &value(&report)["run"]["clock"];
    assert_eq!((&clock["drift_ppm"], &clock["resolution_ns"]), (&Value::Null, &Value::Null));
}

#[test]
fn the_histogram_holds_whole_round_trips() {
    let report = fixture::complete();
    let point = &report.points[0];
    let histogram = decode_histogram(point.histogram.as_deref().unwrap()).unwrap();
    assert_eq!(histogram.len(), point.iterations);
    let half_median = histogram.value_at_quantile(0.5) as f64 / 2.0;
    let median = point.half_rtt_ns.unwrap().p50;
    assert!((half_median / median - 1.0).abs() < 0.001, "{half_median} and {median}");
    assert!(decode_histogram("!").unwrap_err().contains("base64"));
    assert!(decode_histogram("AAAA").unwrap_err().contains("HdrHistogram"));
}

#[test]
fn percentiles_are_kept_by_the_number_that_was_typed() {
    let point = &fixture::complete().points[0];
    assert_eq!(point.percentiles_ns.keys().collect::<Vec<_>>(), ["75", "99.99"]);
}

#[test]
fn a_warning_is_kept_once() {
    let mut report = fixture::failed();
    report.warn("a", "text");
    report.warn("a", "text");
    report.warn("a", "another text");
    assert_eq!(report.warnings.len(), 2);
}
