//! Division of wide integers, rounded as said. The common case, neither negative nor beyond 64 bits,
//! is several times faster.

/// `a / b` rounded down, for `b > 0`.
pub(super) fn floor_div(a: i128, b: u64) -> i128 {
    match u64::try_from(a) {
        Ok(a) => i128::from(a / b),
        Err(_) => a.div_euclid(i128::from(b)),
    }
}

/// `a / b` rounded up, for `b > 0` and `a` at least `b` below the type's maximum.
pub(super) fn ceil_div(a: i128, b: u64) -> i128 {
    floor_div(a + i128::from(b) - 1, b)
}

/// The value as a count: below zero it is 0, above the type's maximum that.
pub(super) fn count(value: i128) -> u64 {
    u64::try_from(value.max(0)).unwrap_or(u64::MAX)
}
