//! The laboratory against the published figures, against formulas and references, and against itself.

mod attack;
mod clients;
mod formulas;
mod lockout;
mod optimal;
mod outage;
mod patterns;
mod repeat;
mod setup;
mod split;
mod support;
