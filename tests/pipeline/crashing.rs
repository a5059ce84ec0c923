//! A run that counts its steps and crashes after one of them, so that every one can be the last.

use crate::rig::Rig;

/// Names how many steps apart the crashes are, where one after each takes too long.
const EVERY: &str = "THROTTLER_TEST_CRASH_EVERY";

/// After which of these steps a run crashes, each in a run of its own, and whether that is after each of them.
pub fn crashes(steps: usize) -> (impl Iterator<Item = usize>, bool) {
    let every = std::env::var(EVERY).map_or(1, |every| every.parse().expect(EVERY));
    ((1..=steps).step_by(every), every == 1)
}

pub struct Run {
    pub rig: Rig,
    pub steps: usize,
    crash_after: Option<usize>,
}

impl Run {
    /// With the step after which it crashes; `None`: it does not.
    pub fn new(rig: Rig, crash_after: Option<usize>) -> Run {
        Run { rig, steps: 0, crash_after }
    }

    /// One step is done; whether the daemon crashed after it, and has started again.
    pub async fn crashed(&mut self) -> bool {
        self.steps += 1;
        let crash = self.crash_after == Some(self.steps);
        if crash {
            self.rig.restart().await;
        }
        crash
    }
}
