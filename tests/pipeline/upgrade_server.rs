//! Older schemas on a server: each becomes exactly what a fresh one is, with its rows.

use std::collections::BTreeMap;

use throttler::store::{Location, ServerUrl, Store};

use crate::rig::only_in_a_file;
use crate::server::{ask, missing, server};
use crate::upgrade::{lived_in, migrations, seen};

/// The tables with rows, in the order in which rows refer to earlier ones.
const TABLES: [&str; 13] = [
    "installation",
    "events",
    "event_ids",
    "revisions",
    "subscribers",
    "limiters",
    "contents",
    "terms",
    "outbox",
    "decisions",
    "updates",
    "changes",
    "notices",
];

fn location(url: &str) -> Location {
    url.parse::<ServerUrl>().expect("an address").into()
}

fn name(url: &str) -> String {
    ask(url, "SELECT current_schema()").swap_remove(0).swap_remove(0)
}

/// All that makes a schema, without its name.
fn schema(url: &str) -> BTreeMap<&'static str, Vec<String>> {
    let mine = format!("{}.", name(url));
    let told = [
        (
            "columns",
            "SELECT table_name, ordinal_position, column_name, data_type, is_nullable, column_default, is_identity, collation_name
             FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2",
        ),
        (
            "constraints",
            "SELECT conrelid::regclass, conname, condeferrable, pg_get_constraintdef(oid) FROM pg_constraint
             WHERE connamespace = current_schema()::regnamespace ORDER BY 1, 2",
        ),
        ("indices", "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1"),
        (
            "tables",
            "SELECT relname, relkind, reloptions FROM pg_class WHERE relnamespace = current_schema()::regnamespace ORDER BY 1",
        ),
        (
            "functions",
            "SELECT oid::regprocedure, prorettype::regtype, provolatile, prosrc FROM pg_proc
             WHERE pronamespace = current_schema()::regnamespace ORDER BY 1::text",
        ),
        ("version", "SELECT version FROM throttler_schema"),
    ];
    told.map(|(what, sql)| (what, ask(url, sql).iter().map(|row| row.join(" ").replace(&mine, "")).collect())).into()
}

/// The rows of one schema in the tables of an older version.
fn as_version(from: &str, version: usize) -> String {
    let (url, source) = (server().schema(), name(from));
    for migration in &migrations("postgres")[..version] {
        ask(&url, migration);
    }
    ask(&url, &format!("UPDATE throttler_schema SET version = {version}"));
    for table in TABLES {
        let common = format!(
            "SELECT string_agg(quote_ident(o.column_name), ', ' ORDER BY o.ordinal_position)
             FROM information_schema.columns AS o JOIN information_schema.columns AS n USING (table_name, column_name)
             WHERE o.table_schema = current_schema() AND n.table_schema = '{source}' AND table_name = '{table}'"
        );
        let columns = ask(&url, &common).swap_remove(0).swap_remove(0);
        ask(&url, &format!("INSERT INTO {table} ({columns}) SELECT {columns} FROM {source}.{table}"));
    }
    url
}

#[tokio::test]
async fn every_older_schema_on_a_server_becomes_what_a_fresh_one_is_and_keeps_its_rows() {
    if only_in_a_file() {
        return;
    }
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let rig = lived_in().await;
    let (fresh, filled) = (server().schema(), server().schema());
    drop(Store::open(location(&fresh)).expect("a fresh schema"));
    let expected = seen(&rig.path("throttler.db"));
    Store::copy(&Location::from(&rig.path("throttler.db")), &location(&filled), |_| ()).expect("copied");
    for older in 1..=migrations("postgres").len() {
        let url = as_version(&filled, older);
        drop(Store::open(location(&url)).unwrap_or_else(|fault| panic!("version {older}: {fault}")));
        assert_eq!(schema(&url), schema(&fresh), "version {older}");
        assert_eq!(seen(location(&url)), expected, "version {older}");
    }
}
