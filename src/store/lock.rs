//! One daemon on one database: a lock file beside it, which the operating system releases with its holder.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::StoreError;

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
        let mut name = database.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        let wrap = |source| StoreError::Lock { lock: lock.clone(), source };
        let mut file = File::options().create(true).truncate(false).read(true).write(true).open(&lock).map_err(wrap)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Only for the message; an unreadable file is no reason to say less clearly that it is held.
                let _ = (&file).take(20).read_to_string(&mut pid);
                return Err(StoreError::Locked { lock, pid: if pid.is_empty() { "unknown".into() } else { pid.trim().into() } });
            }
            Err(TryLockError::Error(source)) => return Err(wrap(source)),
        }
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(wrap)?;
        Ok(DaemonLock { _file: file })
    }
}
