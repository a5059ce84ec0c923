//! Reading catalogues: whole events, the fast scan against a plain reader, and everything that can be wrong with a file.

mod events;
