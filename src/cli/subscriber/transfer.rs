//! `subscriber export` and `subscriber import`: all subscribers as one JSON document.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{check_destination, new_secret};
use crate::cli::Global;
use crate::cli::failure::{Blame, Blamed, Failure};
use crate::cli::output;
use crate::cli::setup::{Loaded, now_by, open_store};
use crate::delivery::{WebhookSecret, check_preset};
use crate::store::Store;
use crate::subscriber::{Destination, Subscriber};

/// The version of the document.
const FORMAT: &str = "throttler.subscribers.v1";
/// The largest document that is read, in bytes: a million subscribers have about half of it.
const MAX_BYTES: u64 = 1 << 30;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    subscribers: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    subscriber: Subscriber,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

pub(super) fn export(store: &Store, with_secrets: bool) -> Result<(), Failure> {
    let entry = |stored: crate::store::StoredSubscriber| -> Result<Entry, Failure> {
        let secret = if with_secrets { store.secret(&stored.subscriber.name)? } else { None };
        Ok(Entry { subscriber: stored.subscriber, secret })
    };
    let subscribers = store.subscribers()?.into_iter().map(entry).collect::<Result<Vec<_>, _>>()?;
    output::print_json(&Document { format: FORMAT.to_owned(), subscribers })
}

pub(super) fn import(global: &Global, file: &Path) -> Result<(), Failure> {
    let name = file.display();
    let text = read(file)?;
    let document: Document = serde_json::from_str(&text)
        .map_err(|fault| {
            let what = if fault.is_data() { "" } else { "this is not JSON as `subscriber export` writes it: " };
            anyhow::anyhow!("{name}:{}:{}: {what}{}", fault.line(), fault.column(), without_place(&fault))
        })
        .blame(Blame::Data)?;
    if document.format != FORMAT {
        let found = document.format;
        return Err(anyhow::anyhow!("{name}: expected the format '{FORMAT}', found '{found}'")).blame(Blame::Data);
    }
    let loaded = Loaded::read(global)?;
    let mut names = HashSet::new();
    let mut added = Vec::with_capacity(document.subscribers.len());
    for (at, Entry { subscriber, secret }) in document.subscribers.into_iter().enumerate() {
        let place = || format!("{name}: subscriber {} ({})", at + 1, subscriber.name);
        if !names.insert(subscriber.name.clone()) {
            return Err(anyhow::anyhow!("{}: the name stands here a second time", place())).blame(Blame::Data);
        }
        subscriber.policy.check().map_err(|fault| anyhow::anyhow!("{}: {fault}", place())).blame(Blame::Data)?;
        check_destination(&loaded, &subscriber).map_err(|fault| anyhow::anyhow!("{}: {fault}", place())).blame(Blame::Data)?;
        check_preset(&subscriber.destination, &subscriber.preset)
            .map_err(|fault| anyhow::anyhow!("{}: {fault}", place()))
            .blame(Blame::Data)?;
        if let Some(secret) = &secret {
            let checked = secret.parse::<WebhookSecret>();
            checked.map_err(|fault| anyhow::anyhow!("{}: {fault}", place())).blame(Blame::Data)?;
            if matches!(subscriber.destination, Destination::Email(_)) {
                return Err(anyhow::anyhow!("{}: a secret signs webhooks, and this one gets email", place())).blame(Blame::Data);
            }
        }
        let secret = if secret.is_some() { secret } else { new_secret(&subscriber)? };
        added.push((subscriber, secret));
    }
    let mut store = open_store(global)?;
    let now = now_by(&store)?;
    store.add_subscribers(&added, now)?;
    output::print(&format!("Added {} subscribers.\n", output::count(added.len() as u64)))
}

fn read(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let reading = if file == Path::new("-") {
        std::io::stdin().lock().take(MAX_BYTES + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|opened| opened.take(MAX_BYTES + 1).read_to_string(&mut text))
    };
    let length = reading.map_err(|fault| anyhow::anyhow!("cannot read {}: {fault}", file.display())).blame(Blame::Running)?;
    if length as u64 > MAX_BYTES {
        return Err(anyhow::anyhow!("{}: longer than {MAX_BYTES} bytes", file.display())).blame(Blame::Data);
    }
    Ok(text)
}

/// The message without the place that serde appends, since it stands in front already.
fn without_place(fault: &serde_json::Error) -> String {
    let text = fault.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(message, _)| message.to_owned())
}
