//! The feed's parser on any bytes: it answers or refuses, and what it lets through is within its bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use throttler::event::{Event, MAX_PLACE_CHARS};
use throttler::feed::{MAX_EVENT_IDS, MAX_FEATURES, parse_from};

fuzz_target!(|bytes: &[u8]| {
    ["", "example"].into_iter().for_each(|service| check(bytes, service));
});

fn check(bytes: &[u8], service: &str) {
    let Ok(snapshot) = parse_from(bytes, service) else { return };
    assert!(snapshot.events.len() + snapshot.rejected.len() <= MAX_FEATURES);
    for event in &snapshot.events {
        assert!(event.place.chars().count() <= MAX_PLACE_CHARS, "{event:?}");
        assert!(!event.place.chars().any(char::is_control), "{event:?}");
        assert!(event.ids.len() <= MAX_EVENT_IDS && event.ids.contains(&event.id), "{event:?}");
        // As the store keeps it and reads it back.
        let kept = serde_json::to_string(event).expect("an event is JSON");
        assert_eq!(&serde_json::from_str::<Event>(&kept).expect("what was written"), event);
    }
}
