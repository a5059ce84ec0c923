//! Reaching a server: what is no address, who does not answer, passwords, certificates.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::authority::Authority;
use crate::daemon::{Daemon, log};
use crate::place::{Place, wait_for};
use crate::server::{Server, ask, missing, server, unprivileged};

const PASSWORD: &str = "open sesame";

/// A configuration that polls a file, with this of the database.
fn place(database: &str) -> Place {
    let place = Place::new();
    place.write("throttler.toml", &format!("{database}\n[feed]\nurl = \"file://{}\"\n", place.path("feed.geojson").display()));
    place.feed(&[]);
    place
}

/// What the start of a daemon and the check say in one line, both the same.
fn refused(place: &Place, args: &[&str], status: i32) -> String {
    let told = [&["run"][..], &["config", "check"]].map(|command| {
        let ran = place.run(&[command, args].concat());
        assert_eq!((ran.status, ran.out.as_str(), ran.err.lines().count()), (Some(status), "", 1), "{args:?}: {}", ran.err);
        ran.err
    });
    assert_eq!(told[0], told[1]);
    told[0].clone()
}

#[test]
fn what_is_no_address_is_refused_without_a_word_of_its_password() {
    let place = place("");
    for (url, expected) in [
        ("postgres://me:secret@127.0.0.1/none", "the password of postgres://me@127.0.0.1/none does not belong into the address"),
        ("postgres://me@127.0.0.1/none?password=secret", "the password of postgres://me@127.0.0.1/none does not belong into"),
        ("postgres://me:1/secret@127.0.0.1/none", "'postgres://…' is not the address of a database: an '@' after the host"),
        ("postgres://me:1?secret@127.0.0.1/none", "'postgres://…' is not the address of a database: an '@' after the host"),
        ("postgres://me:1#secret@127.0.0.1/none", "'postgres://…' is not the address of a database: an '@' after the host"),
        ("postgres://me:secret@127.0.0.1:99999/none", "'postgres://…' is not the address of a database: invalid port number"),
        ("mysql://me:secret@127.0.0.1/none", "'mysql://…' is no database: expected a file, or postgres://USER@HOST/DATABASE"),
        ("Postgres://me:secret@127.0.0.1/none", "'Postgres://…' is no database: expected a file, or postgres://USER@HOST"),
        ("postgres://me@127.0.0.1", "'postgres://me@127.0.0.1' is not the address of a database: without a database; expected"),
        ("postgres:///none", "is not the address of a database: without a host; expected postgres://USER@HOST/DATABASE"),
        (
            "postgres://me@127.0.0.1/none?cipher=rot13",
            "is not the address of a database: invalid connection string: unknown option",
        ),
        ("postgres://me@127.0.0.1/none?answer_timeout=0", "answer_timeout is no number of seconds from 1 to 86400; expected"),
        ("postgres://me@127.0.0.1/none?answer_timeout=1m", "answer_timeout is no number of seconds from 1 to 86400; expected"),
        (
            "postgres://me@127.0.0.1/none?sslmode=verify-ca",
            "sslmode is none of disable, prefer, require and verify-full; expected",
        ),
        (
            "postgres://me@127.0.0.1/none?sslmode=require&sslrootcert=none.pem",
            "sslrootcert=none.pem: expected certificates in PEM",
        ),
    ] {
        let told = refused(&place, &["--database", url], 2);
        assert!(told.starts_with("throttler: --database: ") && told.contains(expected), "{url}: {told}");
        assert!(!told.contains("secret"), "{url}: {told}");
        place.write("other.toml", &format!("database = \"{url}\"\n"));
        let told = refused(&place, &["--config", "other.toml"], 2);
        assert!(told.starts_with("throttler: other.toml: database: ") && told.contains(expected), "{url}: {told}");
        for args in [&["status", "--config", "other.toml"][..], &["database", "copy", "--from", url, "--to", url]] {
            let ran = place.run(args);
            assert_eq!(ran.status, Some(2), "{args:?}: {ran:?}");
            assert!(ran.err.contains(expected) && !ran.err.contains("secret") && ran.out.is_empty(), "{args:?}: {ran:?}");
        }
    }
    // A second time what a bad configuration names is not told in full either.
    place.write("other.toml", "database = \"postgres://me:secret@127.0.0.1/none\"\nledger_days = \"none\"\n");
    let ran = place.run(&["status", "--config", "other.toml"]);
    assert!(ran.status == Some(2) && !format!("{ran:?}").contains("secret"), "{ran:?}");
}

#[test]
fn who_is_not_there_or_does_not_answer_is_given_up() {
    let place = place("");
    // Whoever connects is let in by the system, and then nobody speaks.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = format!("postgres://me@{}/none?connect_timeout=1", silent.local_addr().expect("an address"));
    for (url, expected) in [
        ("postgres://me@127.0.0.1:1/none", "error connecting to server: Connection refused (os error 111)"),
        ("postgres://me@nowhere.invalid/none?sslmode=disable&connect_timeout=5", ""),
        ("postgres://me@%2Fnowhere/none", "error connecting to server: No such file or directory (os error 2)"),
        (&silent, "the server does not answer within 1 s\n"),
    ] {
        let told = refused(&place, &["--database", url], 1);
        assert!(told.starts_with(&format!("throttler: cannot reach the database {url}: {expected}")), "{told}");
    }
}

#[test]
fn an_older_server_and_a_newer_schema_are_refused() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let place = place("");
    // A function of the schema's, which stands before the server's own, tells another version.
    let url = server().schema() + "%2Cpg_catalog";
    ask(
        &url,
        "CREATE FUNCTION current_setting(what text) RETURNS text LANGUAGE sql AS
         $$SELECT CASE what WHEN 'server_version_num' THEN '130014' WHEN 'server_version' THEN '13.14 (Debian)' END$$",
    );
    let told = refused(&place, &["--database", &url], 1);
    let expected = format!("throttler: the server of {url} is PostgreSQL 13.14 (Debian): expected 14 or a newer one\n");
    assert_eq!(told, expected);
    ask(&url, "DROP FUNCTION current_setting(text)");
    place.run(&["config", "check", "--database", &url]).ok();
    assert_eq!(ask(&url, "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace"), [["0"]]);

    place.run(&["subscriber", "add", "anna", "--email", "a@example.org", "--database", &url]).ok();
    place.run(&["config", "check", "--database", &url]).ok();
    ask(&url, "UPDATE throttler_schema SET version = 99");
    let told = refused(&place, &["--database", &url], 1);
    assert!(told.contains("has schema version 99, but this program knows only up to "), "{told}");
    assert!(told.ends_with(": it was written by a newer throttler\n"), "{told}");
    let ran = place.run(&["subscriber", "list", "--database", &url]);
    assert_eq!((ran.status, ran.err), (Some(1), told));
    ask(&url, "UPDATE throttler_schema SET version = -1");
    assert!(refused(&place, &["--database", &url], 1).contains("has schema version -1"));

    let url = server().schema();
    ask(&url, "CREATE TABLE events (another_programs text)");
    let told = refused(&place, &["--database", &url], 1);
    assert!(told.contains("is another program's database"), "{told}");
}

/// A server on a port of this machine's, which asks for a password there, with this certificate.
struct Guarded {
    server: Server,
    _files: TempDir,
}

impl Guarded {
    fn start(authority: Option<&Authority>) -> Guarded {
        let files = TempDir::with_prefix("guarded").expect("a directory");
        fs::set_permissions(files.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
        let file = |name: &str, text: &str, mode| {
            let path = files.path().join(name);
            fs::write(&path, text).expect(name);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("permissions");
            if let Some((user, group)) = unprivileged() {
                chown(&path, Some(user), Some(group)).expect("its owner");
            }
            path.display().to_string()
        };
        // With a certificate nobody is let in in the clear.
        let hosts = if authority.is_some() { "hostssl" } else { "host" };
        let rules = file("rules", &format!("local all all trust\n{hosts} all keeper 127.0.0.1/32 scram-sha-256\n"), 0o644);
        let mut settings = vec![format!("hba_file={rules}"), "fsync=off".to_owned()];
        if let Some(authority) = authority {
            let (certificate, key) = authority.issue("127.0.0.1");
            settings.push("ssl=on".to_owned());
            settings.push(format!("ssl_cert_file={}", file("certificate.pem", &certificate.pem(), 0o644)));
            settings.push(format!("ssl_key_file={}", file("key.pem", &key.serialize_pem(), 0o600)));
        }
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let server = Server::on_loopback(&settings);
        ask(
            &server.url(""),
            &format!("CREATE ROLE keeper LOGIN PASSWORD '{PASSWORD}'; CREATE SCHEMA keeper AUTHORIZATION keeper"),
        );
        Guarded { server, _files: files }
    }

    /// The keeper's schema.
    fn url(&self, more: &str) -> String {
        format!("postgres://keeper@{}/postgres{more}", self.server.address())
    }
}

#[test]
fn a_password_comes_from_a_file_a_credential_or_the_environment_and_is_never_shown() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let guarded = Guarded::start(None);
    let url = guarded.url("");
    let with_file = |file: &str| format!("database = \"{url}\"\ndatabase_password_file = \"{file}\"");
    let place = place(&with_file("password"));
    let reach = format!("throttler: cannot reach the database {url}: ");
    place.write("password", "a wrong one\n");
    assert_eq!(refused(&place, &[], 1), format!("{reach}password authentication failed for user \"keeper\"\n"));
    place.write("password", &format!("{PASSWORD}\n"));
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    let checked = place.run(&["config", "check"]).ok();
    assert!(checked.contains(&url), "{checked}");
    let told = refused(&place, &["--database", &url.replace("/postgres", "/none")], 1);
    assert!(told.ends_with(": database \"none\" does not exist\n"), "{told}");
    let told = refused(&place, &["--database", &url.replace("keeper", "stranger")], 1);
    assert!(told.contains("no pg_hba.conf entry for host \"127.0.0.1\", user \"stranger\""), "{told}");

    // Whoever runs with all that is logged does not see it either.
    let daemon = Daemon::start_with(&place, &[("THROTTLER_LOG", "trace")]);
    wait_for("the daemon is up", || daemon.is_up().then_some(()));
    let status = place.run(&["status"]).ok();
    assert!(daemon.stop().success(), "{}", log(&place));
    for shown in [&checked, &status, &log(&place)] {
        assert!(!shown.contains(PASSWORD), "{shown}");
    }

    fs::remove_file(place.path("password")).expect("it is there");
    let told = refused(&place, &[], 2);
    assert_eq!(told, "throttler: cannot read the database's password from password: No such file or directory (os error 2)\n");
    place.write("throttler.toml", &format!("database = \"{url}\"\n"));
    assert_eq!(refused(&place, &[], 1), format!("{reach}invalid configuration: password missing\n"));
    place.write("database_password", PASSWORD);
    for (variable, value) in [("THROTTLER_DATABASE_PASSWORD", PASSWORD), ("CREDENTIALS_DIRECTORY", ".")] {
        let output = place.command(&["subscriber", "list"]).env(variable, value).output().expect("the program");
        assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("anna"), "{variable}: {output:?}");
    }
    // Where TLS is asked for, nothing is said in the clear.
    let told = refused(&place, &["--database", &guarded.url("?sslmode=require")], 1);
    assert!(told.ends_with(": error performing TLS handshake: server does not support TLS\n"), "{told}");
}

/// Writes it beside the configuration, under this name.
fn certificate(place: &Place, authority: &Authority, name: &str) -> PathBuf {
    let path = place.path(name);
    fs::rename(authority.pem_file(Path::new(&place.path("."))), &path).expect("it is renamed");
    path
}

#[test]
fn a_certificate_is_verified_and_nothing_goes_in_the_clear() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let authority = Authority::new();
    let guarded = Guarded::start(Some(&authority));
    let place = place("");
    place.write("password", PASSWORD);
    certificate(&place, &Authority::new(), "another.pem");
    certificate(&place, &authority, "ca.pem");
    let with = |url: &str| {
        let feed = place.path("feed.geojson");
        let text =
            format!("database = \"{url}\"\ndatabase_password_file = \"password\"\n[feed]\nurl = \"file://{}\"\n", feed.display());
        place.write("throttler.toml", &text);
    };
    for (more, expected) in [
        ("?sslmode=require", "invalid peer certificate: UnknownIssuer"),
        ("?sslmode=require&sslrootcert=another.pem", "error performing TLS handshake: invalid peer certificate: "),
        ("?sslmode=prefer&sslrootcert=another.pem", "error performing TLS handshake: invalid peer certificate: "),
        (
            "?sslmode=disable",
            "no pg_hba.conf entry for host \"127.0.0.1\", user \"keeper\", database \"postgres\", no encryption",
        ),
    ] {
        with(&guarded.url(more));
        let told = refused(&place, &[], 1);
        assert!(told.starts_with("throttler: cannot reach the database ") && told.contains(expected), "{more}: {told}");
    }
    // It is 127.0.0.1's, and nobody else's.
    with(&guarded.url("?sslmode=verify-full&sslrootcert=ca.pem").replace("127.0.0.1", "localhost"));
    let told = refused(&place, &[], 1);
    assert!(told.contains("invalid peer certificate: certificate not valid for name \"localhost\""), "{told}");

    for mode in ["require", "verify-full"] {
        with(&guarded.url(&format!("?sslmode={mode}&sslrootcert=ca.pem")));
        place.run(&["config", "check"]).ok();
    }
    let daemon = Daemon::start(&place);
    let sessions = "SELECT count(*), count(*) FILTER (WHERE ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                    WHERE application_name = 'throttler'";
    // One works, one listens.
    wait_for("both sessions", || (ask(&guarded.server.url(""), sessions) == [["2", "2"]]).then_some(()));
    assert!(daemon.stop().success(), "{}", log(&place));
}
