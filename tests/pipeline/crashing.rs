//! A run that counts its steps and crashes after one of them, so that every one can be the last.

use crate::rig::Rig;

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
