//! One daemon on one database: a lock file beside it, which the operating system releases with its holder.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::StoreError;

/// More than the digits of a process id.
const MAX_PID_BYTES: u64 = 20;

/// Held while the daemon runs; dropping it releases the lock.
#[derive(Debug)]
pub struct DaemonLock {
    _file: File,
}

impl DaemonLock {
    /// Takes the lock of this database.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another daemon holds it; [`StoreError::Lock`] if the file cannot be made.
    pub fn acquire(database: &Path) -> Result<DaemonLock, StoreError> {
        let lock = lock_file(database);
        let wrap = |source| StoreError::Lock { lock: lock.clone(), source };
        let mut file = File::options().create(true).truncate(false).read(true).write(true).open(&lock).map_err(wrap)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let pid = process_in(&file);
                return Err(StoreError::Locked { lock, pid });
            }
            Err(TryLockError::Error(source)) => return Err(wrap(source)),
        }
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(wrap)?;
        Ok(DaemonLock { _file: file })
    }

    /// The process of the daemon that runs on this database, `unknown` if the file does not say; `None` if none runs.
    ///
    /// A daemon that starts at this very instant may find the lock taken and say that another one runs.
    ///
    /// # Errors
    /// [`StoreError::Lock`] if the file is there and cannot be asked.
    pub fn holder(database: &Path) -> Result<Option<String>, StoreError> {
        let lock = lock_file(database);
        let wrap = |source| StoreError::Lock { lock: lock.clone(), source };
        let file = match File::open(&lock) {
            Ok(file) => file,
            Err(fault) if fault.kind() == ErrorKind::NotFound => return Ok(None),
            Err(fault) => return Err(wrap(fault)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(Some(process_in(&file))),
            Err(TryLockError::Error(source)) => Err(wrap(source)),
        }
    }
}

fn lock_file(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// Only for a message; an unreadable file is no reason to say less clearly that it is held.
fn process_in(file: &File) -> String {
    let mut pid = String::new();
    let _ = file.take(MAX_PID_BYTES).read_to_string(&mut pid);
    if pid.trim().is_empty() { "unknown".to_owned() } else { pid.trim().to_owned() }
}
