//! The laboratory against the published figures, the formulas and itself.

mod clients;
