//! The stored bytes: every state comes back as it was, and nothing else is taken for one.

use std::mem::size_of;

use proptest::prelude::*;
use throttler::limiter::{Algorithm, Limit, Limiter, Request, STATE_VERSION, StateError, TokenBucket, Verdict};
use throttler::time::Timestamp;

use crate::support::{all_limits, any_limit, any_size, at, cases, parsed};

/// A limiter after any traffic, clock steps and changes of its limit included.
fn any_state() -> impl Strategy<Value = Limiter> {
    let any_step = (any_size(0, 1 << 54), any::<bool>(), any_size(1, 1_000_000_000), prop::option::weighted(0.1, any_limit()));
    (any_limit(), prop::collection::vec(any_step, 0..20)).prop_map(|(limit, steps)| {
        let (mut limiter, mut now) = (Limiter::new(limit), 0_i64);
        for (ticks, back, cost, change) in steps {
            let step = i64::try_from(ticks).expect("below 2^54");
            now = (if back { now - step } else { now + step }).clamp(Timestamp::MIN.ticks(), Timestamp::MAX.ticks());
            if let Some(changed) = change {
                limiter = limiter.carried_over(changed, at(now));
            }
            let left = limiter.outlook(at(now), Request::ONE).remaining;
            limiter.admit(at(now), Request::costing(u32::try_from(cost.min(left)).expect("at most 10^9")));
        }
        limiter
    })
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn every_state_comes_back_as_it_was(limiter in any_state()) {
        prop_assert_eq!(Limiter::from_bytes(&limiter.to_bytes()), Ok(limiter));
    }

    #[test]
    fn every_cut_and_every_surplus_byte_is_an_error(limiter in any_state(), surplus in prop::collection::vec(any::<u8>(), 1..40)) {
        let bytes = limiter.to_bytes();
        for length in 0..bytes.len() {
            prop_assert_eq!(Limiter::from_bytes(&bytes[..length]), Err(StateError::Short(length)));
        }
        let longer = [bytes, surplus.clone()].concat();
        prop_assert_eq!(Limiter::from_bytes(&longer), Err(StateError::Long(surplus.len())));
    }

    #[test]
    fn every_other_version_is_an_error_that_names_it(limiter in any_state(), version in any::<u8>()) {
        prop_assume!(version != STATE_VERSION);
        let mut bytes = limiter.to_bytes();
        bytes[0] = version;
        let error = Limiter::from_bytes(&bytes).expect_err("another version");
        prop_assert_eq!(&error, &StateError::Version(version));
        prop_assert!(error.to_string().contains(&format!("version {version},")), "{error}");
    }

    /// Whatever the bytes: an error, or a limiter that answers every question and is written as it was read.
    #[test]
    fn no_bytes_panic(
        limiter in any_state(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        noise in prop::option::weighted(0.2, prop::collection::vec(any::<u8>(), 0..60)),
        times in prop::collection::vec(Timestamp::MIN.ticks()..=Timestamp::MAX.ticks(), 1..5),
        other in any_limit(),
    ) {
        let mut bytes = limiter.to_bytes();
        for (index, byte) in damage {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        if let Some(noise) = noise {
            bytes.truncate(14);
            bytes.extend(noise);
        }
        if let Ok(mut limiter) = Limiter::from_bytes(&bytes) {
            prop_assert_eq!(limiter.to_bytes(), bytes);
            for now in [times, vec![Timestamp::MIN.ticks(), 0, Timestamp::MAX.ticks()]].concat() {
                limiter.decide(at(now), Request::ONE);
                limiter.decide(at(now), Request { cost: u32::MAX, keep: u32::MAX });
                limiter.carried_over(other, at(now)).decide(at(now), Request::ONE);
                let _ = limiter.spent(at(now));
            }
        }
    }
}

/// What is detectable: a spent limiter whose time is no time at all is an error, not one that was never used.
#[test]
fn a_state_outside_all_time_is_no_unspent_limiter() {
    let beyond = [i64::MIN, i64::MAX, Timestamp::MIN.ticks() - 1, Timestamp::MAX.ticks() + 2];
    for limit in all_limits(5, 1, 5) {
        let mut limiter = Limiter::new(limit);
        assert_eq!(limiter.admit(at(1_000), Request::costing(5)), Verdict::Admitted);
        // Behind version, algorithm, n and w comes the bucket, or the window or time that is replaced.
        let (start, width) = if limit.algorithm().has_bucket() { (18, 16) } else { (14, 8) };
        for ticks in beyond {
            let mut bytes = limiter.to_bytes();
            let wide = (i128::from(ticks) * 5).to_le_bytes();
            let narrow = ticks.to_le_bytes();
            bytes[start..start + width].copy_from_slice(if width == 16 { &wide } else { &narrow });
            let read = Limiter::from_bytes(&bytes);
            assert!(matches!(read, Err(StateError::Inconsistent(_))), "{ticks}: {read:?}");
        }
    }
}

#[test]
fn what_no_limit_can_be_is_an_error() {
    let bytes = Limiter::new(parsed(Algorithm::TokenBucket, "5/h", Some(5))).to_bytes();
    let with = |start: usize, replaced: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[start..start + replaced.len()].copy_from_slice(replaced);
        Limiter::from_bytes(&bytes)
    };
    assert_eq!(with(1, &[6]), Err(StateError::Algorithm(6)));
    assert!(matches!(with(2, &[0; 4]), Err(StateError::Rate(_))));
    assert!(matches!(with(6, &[0; 8]), Err(StateError::Rate(_))));
    assert!(matches!(with(6, &[255; 8]), Err(StateError::Rate(_))));
    assert!(matches!(with(14, &[0; 4]), Err(StateError::Limit(_))));
    assert!(matches!(with(14, &[255; 4]), Err(StateError::Limit(_))));
}

/// A change to these bytes needs a new version.
#[test]
fn the_bytes_of_version_1_stay_as_they_are() {
    let mut limiter = Limiter::new(parsed(Algorithm::TokenBucket, "5/h", Some(74)));
    limiter.admit(at(1), Request::ONE);
    let tat = 5_i128 + 3_600_000_000;
    let expected =
        [&[1, 4][..], &5_u32.to_le_bytes(), &3_600_000_000_u64.to_le_bytes(), &74_u32.to_le_bytes(), &tat.to_le_bytes()];
    assert_eq!(limiter.to_bytes(), expected.concat());
}

#[test]
fn a_token_bucket_with_its_own_parameters_takes_32_bytes() {
    assert!(size_of::<TokenBucket>() <= 32);
    let limit: Limit = parsed(Algorithm::TokenBucket, "5/h", Some(74));
    assert_eq!(Limiter::new(limit).to_bytes().len(), 34);
}
