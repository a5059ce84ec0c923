//! What time it is: the only place that asks the system.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::time::{Span, Timestamp};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// The present instant.
    fn now(&self) -> Timestamp;

    /// How long ago any fixed instant was, by a clock that nobody sets: of two answers the difference counts. A clock that
    /// a test moves tells its own time here too.
    fn uptime(&self) -> Span {
        Span::from_ticks(self.now().ticks().unsigned_abs())
    }
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the place")]
    fn now(&self) -> Timestamp {
        let ticks = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => i128::try_from(after.as_micros()).unwrap_or(i128::MAX),
            Err(before) => -i128::try_from(before.duration().as_micros()).unwrap_or(i128::MAX),
        };
        Timestamp::saturating_from_ticks(ticks)
    }

    fn uptime(&self) -> Span {
        static FIRST_ASKED: LazyLock<Stopwatch> = LazyLock::new(Stopwatch::start);
        FIRST_ASKED.elapsed()
    }
}

/// Measures how long something takes. Setting the system's clock does not touch it.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Begins to measure.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the place")]
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// How long ago it was started.
    #[must_use]
    pub fn elapsed(self) -> Span {
        Span::from_ticks(u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX))
    }
}

/// A clock that somebody else's is told to, and that goes on by itself in between, whatever the system's shows.
#[derive(Debug)]
pub struct SteeredClock(Mutex<(Timestamp, Stopwatch)>);

impl SteeredClock {
    /// A clock that shows `at` now.
    #[must_use]
    pub fn at(at: Timestamp) -> SteeredClock {
        SteeredClock(Mutex::new((at, Stopwatch::start())))
    }

    /// It was `at` when the watch was started.
    pub fn steer(&self, at: Timestamp, since: Stopwatch) {
        // Nothing that holds it panics halfway.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (at, since);
    }
}

impl Clock for SteeredClock {
    fn now(&self) -> Timestamp {
        let (at, since) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        at.plus(since.elapsed())
    }

    /// How long this process does something is no other machine's affair.
    fn uptime(&self) -> Span {
        SystemClock.uptime()
    }
}

/// A clock that stands where it is set, for the demonstration and for tests.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that stands at `at`.
    #[must_use]
    pub fn at(at: Timestamp) -> ManualClock {
        ManualClock(AtomicI64::new(at.ticks()))
    }

    /// Sets it.
    pub fn set(&self, at: Timestamp) {
        self.0.store(at.ticks(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::saturating_from_ticks(self.0.load(Ordering::SeqCst).into())
    }
}

/// A clock that shows what a file says, for tests that move the time of a whole process and kill it meanwhile.
#[derive(Debug)]
pub struct FileClock {
    path: PathBuf,
    last: ManualClock,
}

impl FileClock {
    /// A clock that shows the instant in this file, which whoever moves the time replaces as a whole.
    ///
    /// # Errors
    /// If the file cannot be read now or holds no instant. Later the clock then stands still.
    pub fn open(path: &Path) -> io::Result<FileClock> {
        Ok(FileClock { path: path.to_owned(), last: ManualClock::at(read(path)?) })
    }
}

impl Clock for FileClock {
    fn now(&self) -> Timestamp {
        if let Ok(now) = read(&self.path) {
            self.last.set(now);
        }
        self.last.now()
    }
}

fn read(path: &Path) -> io::Result<Timestamp> {
    fs::read_to_string(path)?.trim().parse().map_err(io::Error::other)
}
