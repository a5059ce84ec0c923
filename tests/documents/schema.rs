//! `docs/webhook.schema.json` against the bodies that `tests/delivery` saw arrive, word for word.

use std::fs;

use serde_json::{Value, json};

use crate::root;

fn schema() -> jsonschema::Validator {
    let text = fs::read_to_string(root().join("docs/webhook.schema.json")).expect("the schema");
    jsonschema::validator_for(&serde_json::from_str(&text).expect("JSON")).expect("a schema")
}

/// The bodies as the receiver of the tests got them.
fn bodies() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("tests/delivery/snapshots")).expect("the snapshots") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("delivery__webhook__") && name.ends_with(".json.snap") {
            let text = fs::read_to_string(&path).expect("a snapshot");
            let body = text.splitn(3, "---\n").nth(2).expect("a snapshot has a head");
            found.push((name, serde_json::from_str(body).expect("JSON")));
        }
    }
    assert!(found.len() >= 3, "the snapshots were not found");
    found
}

fn body(name: &str) -> Value {
    bodies().into_iter().find(|(found, _)| found.contains(name)).expect("a body").1
}

#[test]
fn every_body_fits_the_schema() {
    let schema = schema();
    for (name, body) in bodies() {
        let faults: Vec<String> = schema.iter_errors(&body).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{name}: {faults:?}");
        assert_eq!(body["schema"], throttler::delivery::SCHEMA);
    }
}

#[test]
fn the_schema_tells_every_key() {
    let text = fs::read_to_string(root().join("docs/webhook.schema.json")).expect("the schema");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    let (event, digest) = (body("event.json"), body("digest.json"));
    let (update, withdrawal) = (body("update.json"), body("withdrawal.json"));
    let notice = body("notice.json");
    for (found, described) in [
        (&event, &schema["properties"]),
        (&digest, &schema["properties"]),
        (&body("exercise.json"), &schema["properties"]),
        (&body("one_click.json"), &schema["properties"]),
        (&event["event"], &schema["$defs"]["event"]["properties"]),
        (&event["limit"], &schema["$defs"]["limit"]["properties"]),
        (&digest["digest"], &schema["$defs"]["digest"]["properties"]),
        (&update, &schema["properties"]),
        (&update["update"], &schema["$defs"]["update"]["properties"]),
        (&withdrawal, &schema["properties"]),
        (&withdrawal["withdrawal"], &schema["$defs"]["withdrawal"]["properties"]),
        (&notice, &schema["properties"]),
        (&notice["notice"], &schema["$defs"]["notice"]["properties"]),
        (&notice["notice"]["changes"][0], &schema["$defs"]["change"]["properties"]),
        (&notice["notice"]["changes"][0]["listed"][0], &schema["$defs"]["item"]["properties"]),
    ] {
        for key in found.as_object().expect("an object").keys() {
            assert!(described.get(key).is_some(), "the schema does not tell of '{key}'");
        }
    }
}

#[test]
fn what_is_no_body_does_not_fit() {
    let schema = schema();
    let spoilt = |name: &str, pointer: &str, value: Option<Value>| {
        let mut body = body(name);
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        let parent = body.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object");
        match value {
            Some(value) => parent.insert(key.to_owned(), value),
            None => parent.remove(key),
        };
        assert!(!schema.is_valid(&body), "{name} fits with another {pointer}");
    };
    spoilt("event.json", "/schema", Some(json!("throttler.alert.v2")));
    spoilt("event.json", "/event", None);
    spoilt("event.json", "/late", None);
    spoilt("event.json", "/type", Some(json!("earthquake.digest")));
    spoilt("event.json", "/created_at", Some(json!("yesterday")));
    spoilt("event.json", "/event/latitude", Some(json!(91)));
    spoilt("event.json", "/event/magnitude", Some(json!("8.8")));
    spoilt("event.json", "/event/pager", Some(json!("blue")));
    spoilt("event.json", "/limit/remaining", Some(json!(-1)));
    spoilt("event.json", "/limit/rate", Some(json!("five an hour")));
    spoilt("exercise.json", "/exercise", Some(json!(false)));
    spoilt("digest.json", "/digest/events", Some(json!([])));
    spoilt("digest.json", "/digest/count", Some(json!(0)));
    spoilt("update.json", "/update", None);
    spoilt("update.json", "/update/of", None);
    spoilt("update.json", "/update/changes", Some(json!([])));
    spoilt("update.json", "/update/changes", Some(json!(["everything"])));
    spoilt("update.json", "/type", Some(json!("earthquake.alert")));
    spoilt("withdrawal.json", "/withdrawal", None);
    spoilt("notice.json", "/notice", None);
    spoilt("notice.json", "/notice/changes", Some(json!([])));
    spoilt("notice.json", "/notice/changes/0/what", Some(json!("nothing")));
    spoilt("notice.json", "/type", Some(json!("earthquake.alert")));
    spoilt("withdrawal.json", "/type", Some(json!("earthquake.update")));
}
