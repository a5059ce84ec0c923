//! `--plot` and `--html`: the files for what was found, checked before any work and never one that is read.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use tempfile::NamedTempFile;

use super::failure::{Blame, Blamed, Failure};
use crate::plot::MAX_PANELS;

/// Where pictures go.
#[derive(Args)]
pub(super) struct PictureFlags {
    /// Draw what was found
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// The same as a page to explore, in one file
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,
}

/// The files that were asked for.
pub(super) struct Pictures {
    plot: Option<Destination>,
    html: Option<Destination>,
}

impl PictureFlags {
    /// Makes sure that the files can be written, and that neither is the other or one of `inputs`; `None` if none was asked for.
    pub fn open(&self, inputs: &[&Path]) -> Result<Option<Pictures>, Failure> {
        let (plot, html) = (self.plot.as_deref(), self.html.as_deref());
        if plot.is_none() && html.is_none() {
            return Ok(None);
        }
        if let (Some(plot), Some(html)) = (plot, html)
            && is_same(plot, html)
        {
            return Err(Failure::usage(format!("--plot and --html need two files, not both {}", html.display())));
        }
        let open = |path: Option<&Path>| path.map(|path| Destination::open(path, inputs)).transpose();
        Ok(Some(Pictures { plot: open(plot)?, html: open(html)? }))
    }
}

impl Pictures {
    /// Writes those that were asked for.
    pub fn write(self, svg: impl FnOnce() -> String, html: impl FnOnce() -> String) -> Result<(), Failure> {
        self.plot.map_or(Ok(()), |file| file.write(&svg()))?;
        self.html.map_or(Ok(()), |file| file.write(&html()))
    }
}

/// Refuses a picture with more panels than one can look through; `instead` says how to choose.
pub(super) fn check_panels(panels: usize, instead: &str) -> Result<(), Failure> {
    if panels > MAX_PANELS {
        return Err(Failure::usage(format!(
            "a picture has at most {MAX_PANELS} panels, this one would have {panels}: {instead}"
        )));
    }
    Ok(())
}

/// A file to be written after long work. Opening it shows whether it can be; until it is complete, whatever had its name
/// stays as it was.
pub(super) struct Destination {
    path: PathBuf,
    draft: NamedTempFile,
}

impl Destination {
    /// Starts a draft beside `path`, which must not be anything but a file that may be written, and none of `inputs`; a link
    /// leads to the file that it names.
    pub fn open(path: &Path, inputs: &[&Path]) -> Result<Destination, Failure> {
        // As any new file: the drafts of the library are readable by their owner alone.
        Destination::with_permissions(path, inputs, 0o666)
    }

    /// The same for what only its owner may read.
    pub fn open_private(path: &Path, inputs: &[&Path]) -> Result<Destination, Failure> {
        Destination::with_permissions(path, inputs, 0o600)
    }

    fn with_permissions(path: &Path, inputs: &[&Path], mode: u32) -> Result<Destination, Failure> {
        let cannot = || format!("cannot write {}", path.display());
        if let Some(input) = inputs.iter().find(|input| is_same(path, input)) {
            return Err(Failure::usage(format!("{}: it is {}, which is read", cannot(), input.display())));
        }
        let path = file_to_write(path)?;
        let directory = directory_of(&path);
        let mut builder = tempfile::Builder::new();
        builder.prefix(".throttler-");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            builder.permissions(fs::Permissions::from_mode(mode));
        }
        // Without the name of the draft, which nobody has asked for.
        let reason = |fault: io::Error| io::Error::from(fault.kind());
        let draft = builder.tempfile_in(directory).map_err(reason).with_context(cannot).blame(Blame::Running)?;
        Ok(Destination { path, draft })
    }

    /// Writes the whole content and gives the file its name.
    pub fn write(mut self, content: &str) -> Result<(), Failure> {
        let cannot = || format!("cannot write {}", self.path.display());
        self.draft.write_all(content.as_bytes()).with_context(cannot).blame(Blame::Running)?;
        self.draft.persist(&self.path).map_err(|fault| fault.error).with_context(cannot).blame(Blame::Running)?;
        Ok(())
    }

    /// The draft, for those who write it themselves.
    pub fn draft(&self) -> &Path {
        self.draft.path()
    }

    /// Gives what was written into the draft its name, durably: its size in bytes. Without `replace` no other file is lost.
    pub fn keep(self, replace: bool) -> Result<u64, Failure> {
        let cannot = || format!("cannot write {}", self.path.display());
        let synced = self.draft.as_file().sync_all().and_then(|()| self.draft.as_file().metadata());
        let bytes = synced.with_context(cannot).blame(Blame::Running)?.len();
        let named = if replace { self.draft.persist(&self.path) } else { self.draft.persist_noclobber(&self.path) };
        named.map_err(|fault| fault.error).with_context(cannot).blame(Blame::Running)?;
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let durable = fs::File::open(directory).and_then(|directory| directory.sync_all());
        durable.with_context(cannot).blame(Blame::Running)?;
        Ok(bytes)
    }
}

/// Where a file of this name lies, which must not be anything but a file that may be written, in a directory that is there; a
/// link leads to the file that it names.
pub(super) fn file_to_write(path: &Path) -> Result<PathBuf, Failure> {
    let cannot = || format!("cannot write {}", path.display());
    let path = if path.exists() { fs::canonicalize(path).with_context(cannot).blame(Blame::Running)? } else { path.to_owned() };
    if path.exists() && !path.is_file() {
        return Err(Failure::usage(format!("{}: it is not a file", cannot())));
    }
    // A new file would take its place all the same, which is not what its protection asks for.
    if fs::metadata(&path).is_ok_and(|found| found.permissions().readonly()) {
        return Err(anyhow::Error::msg(format!("{}: it is read-only", cannot()))).blame(Blame::Running);
    }
    let directory = directory_of(&path);
    if !directory.is_dir() {
        return Err(anyhow::Error::msg(format!("{}: there is no directory {}", cannot(), directory.display())))
            .blame(Blame::Running);
    }
    Ok(path)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether two names, however they are written, lead to one file.
fn is_same(a: &Path, b: &Path) -> bool {
    match (place(a), place(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// Where a file is or would be.
fn place(path: &Path) -> Option<PathBuf> {
    if let Ok(found) = fs::canonicalize(path) {
        return Some(found);
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(fs::canonicalize(directory).ok()?.join(path.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_when_it_is_whole() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("scene.svg");
        fs::write(&path, "old").expect("an older file");
        let names = || fs::read_dir(directory.path()).expect("a listing").count();

        drop(Destination::open(&path, &[]).expect("writable"));
        assert_eq!(
            (fs::read_to_string(&path).expect("the file"), names()),
            ("old".to_owned(), 1),
            "an abandoned draft leaves nothing"
        );
        Destination::open(&path, &[]).expect("writable").write("new").expect("written");
        assert_eq!((fs::read_to_string(&path).expect("the file"), names()), ("new".to_owned(), 1));
        for wrong in [directory.path().to_owned(), directory.path().join("none/scene.svg")] {
            assert!(Destination::open(&wrong, &[]).is_err(), "{}", wrong.display());
        }
    }

    #[test]
    fn one_file_under_two_names_is_one_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let (file, new) = (directory.path().join("a"), directory.path().join("new"));
        fs::write(&file, "").expect("a file");
        std::os::unix::fs::symlink(&file, directory.path().join("link")).expect("a link");
        assert!(is_same(&file, &directory.path().join("link")));
        assert!(is_same(&new, &directory.path().join("./new")) && !is_same(&new, &file));
    }
}
