//! The flags that describe a subscriber, the same for `add` and `set`.

use std::str::FromStr;

use clap::Args;

use super::form::FormFlags;
use crate::cli::failure::Failure;
use crate::cli::input::whole_number;
use crate::event::{Coordinates, Magnitude, PagerLevel};
use crate::interest::{BoundingBox, Depth, Interest, Kinds, Radius, Region};
use crate::limiter::{Algorithm, CostStep, CounterRule, Limit, Policy, Reserve};
use crate::quiet::{Hours, QuietHours, Zone};
use crate::rate::Rate;
use crate::subscriber::{Address, Destination, Excess, Mode, Preset, Subscriber, SubscriberName, Tags, Updates, WebhookUrl};

/// The default limit: what eleven years of the world's earthquakes of M 5 or more need to lose nothing at five an hour.
const DEFAULT_RATE: &str = "5/h";
const DEFAULT_BUCKET: u64 = 74;

#[derive(Args, Default)]
pub(in crate::cli) struct SubscriberFlags {
    /// Send email to this address
    #[arg(long, value_name = "ADDRESS", conflicts_with = "webhook", help_heading = "Destination")]
    email: Option<Address>,
    /// Post signed messages to this URL
    #[arg(long, value_name = "URL", help_heading = "Destination")]
    webhook: Option<WebhookUrl>,
    #[command(flatten)]
    form: FormFlags,
    /// Words that limits on deliveries may name, with commas between; `none` lifts them
    #[arg(long, value_name = "TAG,…", help_heading = "Destination")]
    tags: Option<OrNone<Tags>>,

    /// Events of this magnitude or more [default: 5.0]
    #[arg(long, value_name = "M", allow_negative_numbers = true, help_heading = "Interest")]
    min_magnitude: Option<Magnitude>,
    /// Events at most this deep, in km; `none` lifts it
    #[arg(long, value_name = "KM", allow_negative_numbers = true, help_heading = "Interest")]
    max_depth_km: Option<OrNone<Depth>>,
    /// Events around this place in degrees; `none` lifts the region
    #[arg(long, value_name = "LAT,LON", allow_hyphen_values = true, conflicts_with = "bbox", help_heading = "Interest")]
    near: Option<OrNone<Coordinates>>,
    /// How far around, in km
    #[arg(long, value_name = "R", allow_negative_numbers = true, help_heading = "Interest")]
    within_km: Option<Radius>,
    /// Events in this box in degrees, which may cross the date line; `none` lifts the region
    #[arg(long, value_name = "W,S,E,N", allow_hyphen_values = true, help_heading = "Interest")]
    bbox: Option<OrNone<BoundingBox>>,
    /// The types of event, with commas between, or `any` [default: earthquake]
    #[arg(long, value_name = "TYPE", help_heading = "Interest")]
    r#type: Option<Kinds>,
    /// Only events flagged for a tsunami; `--tsunami false` lifts it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Interest")]
    tsunami: Option<bool>,
    /// Only events of this PAGER level or higher: green, yellow, orange or red; `none` lifts it
    #[arg(long, value_name = "LEVEL", help_heading = "Interest")]
    min_alert: Option<OrNone<PagerLevel>>,

    /// fixed-window, sliding-log, sliding-counter, token-bucket or leaky-bucket [default: token-bucket]
    #[arg(long, value_name = "LIMITER", help_heading = "Limiter")]
    limiter: Option<Algorithm>,
    /// How many in which window, like 5/h, 100/60s or 1/2d [default: 5/h]
    #[arg(long, value_name = "N/WINDOW", allow_hyphen_values = true, help_heading = "Limiter")]
    rate: Option<Rate>,
    /// How many at once, for token-bucket and leaky-bucket [default: 74]
    #[arg(long, value_name = "B", allow_negative_numbers = true, value_parser = whole_number, help_heading = "Limiter")]
    bucket: Option<u64>,
    /// How a sliding-counter compares its estimate: below or fits [default: below]
    #[arg(long, value_name = "RULE", help_heading = "Limiter")]
    counter_rule: Option<CounterRule>,
    /// Always deliver events of this magnitude or more, whatever the limiter says; `none` lifts it
    #[arg(long, value_name = "M", allow_negative_numbers = true, help_heading = "Limiter")]
    always_from: Option<OrNone<Magnitude>>,
    /// Keep this many admissions for large events; `none` lifts it
    #[arg(long, value_name = "K", allow_negative_numbers = true, help_heading = "Limiter")]
    reserve: Option<OrNone<Kept>>,
    /// From which magnitude the kept admissions are for
    #[arg(long, value_name = "M", allow_negative_numbers = true, help_heading = "Limiter")]
    reserve_from: Option<Magnitude>,
    /// From magnitude M an event costs N admissions, like 6=2,7=3; `none` lifts it
    #[arg(long, value_name = "M=N,…", help_heading = "Limiter")]
    cost: Option<OrNone<Costs>>,
    /// What happens to what is withheld: digest, delay or drop [default: digest]
    #[arg(long, value_name = "EXCESS", help_heading = "Limiter")]
    excess: Option<Excess>,
    /// enforce, or shadow: decide and record, but withhold nothing [default: enforce]
    #[arg(long, value_name = "MODE", help_heading = "Limiter")]
    mode: Option<Mode>,
    /// Of which changes to what was told to hear: none, major or all; none leaves out withdrawals, too [default: major]
    #[arg(long, value_name = "WHICH", help_heading = "Limiter")]
    updates: Option<Updates>,

    /// When events wait for the end, on a clock in the zone, like 22:00-07:00; `none` lifts it
    #[arg(long, value_name = "FROM-TO", allow_hyphen_values = true, help_heading = "Quiet hours")]
    quiet: Option<OrNone<Hours>>,
    /// The clock's time zone in the IANA database, like Asia/Kamchatka [default: UTC]
    #[arg(long, value_name = "ZONE", help_heading = "Quiet hours")]
    zone: Option<Zone>,
    /// Events of this magnitude or more do not wait; `none`: all wait [default: --always-from, else none]
    #[arg(long, value_name = "M", allow_negative_numbers = true, help_heading = "Quiet hours")]
    quiet_below: Option<OrNone<Magnitude>>,
}

/// A value, or `none` to lift what was set.
#[derive(Clone, Debug)]
struct OrNone<T>(Option<T>);

impl<T: FromStr> FromStr for OrNone<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<OrNone<T>, T::Err> {
        if text == "none" { Ok(OrNone(None)) } else { text.parse().map(|value| OrNone(Some(value))) }
    }
}

/// How many admissions are kept.
#[derive(Clone, Copy, Debug)]
struct Kept(u32);

impl FromStr for Kept {
    type Err = String;

    fn from_str(text: &str) -> Result<Kept, String> {
        // More than fits is more than any limiter admits, which the policy says better.
        whole_number(text).map(|count| Kept(u32::try_from(count).unwrap_or(u32::MAX)))
    }
}

/// Costs by magnitude.
#[derive(Clone, Debug)]
struct Costs(Vec<CostStep>);

impl FromStr for Costs {
    type Err = String;

    fn from_str(text: &str) -> Result<Costs, String> {
        let step = |part: &str| {
            let (from, cost) = part.split_once('=')?;
            Some(CostStep { from: from.parse().ok()?, cost: cost.parse().ok()? })
        };
        let steps: Option<Vec<CostStep>> = text.split(',').map(step).collect();
        steps.map(Costs).ok_or_else(|| format!("'{text}' is not a list of costs: expected M=N with commas between, like 6=2,7=3"))
    }
}

impl SubscriberFlags {
    /// A new subscriber: the defaults with these flags applied.
    pub fn new_subscriber(&self, name: SubscriberName) -> Result<Subscriber, Failure> {
        let Some(destination) = self.destination() else {
            return Err(Failure::usage(format!("where should {name}'s alerts go? Expected --email ADDRESS or --webhook URL")));
        };
        let limit = self.limit(None)?;
        let interest = Interest::default();
        let policy = Policy::plain(limit);
        let (excess, mode) = (Excess::default(), Mode::default());
        let (preset, updates) = (Preset::default(), Updates::default());
        self.apply(Subscriber {
            name,
            destination,
            preset,
            interest,
            policy,
            excess,
            mode,
            updates,
            quiet: None,
            tags: Tags::default(),
        })
    }

    /// The subscriber with these flags applied, checked as a whole.
    pub fn apply(&self, mut subscriber: Subscriber) -> Result<Subscriber, Failure> {
        if let Some(destination) = self.destination() {
            subscriber.destination = destination;
        }
        self.form.apply(&mut subscriber)?;
        self.apply_interest(&mut subscriber.interest)?;
        self.apply_policy(&mut subscriber.policy)?;
        subscriber.excess = self.excess.unwrap_or(subscriber.excess);
        subscriber.mode = self.mode.unwrap_or(subscriber.mode);
        subscriber.updates = self.updates.unwrap_or(subscriber.updates);
        subscriber.quiet = self.quiet_hours(subscriber.quiet)?;
        if let Some(OrNone(tags)) = &self.tags {
            subscriber.tags = tags.clone().unwrap_or_default();
        }
        Ok(subscriber)
    }

    /// Whether no flag is given.
    pub fn is_empty(&self) -> bool {
        let SubscriberFlags {
            email,
            webhook,
            form,
            tags,
            min_magnitude,
            max_depth_km,
            near,
            within_km,
            bbox,
            r#type,
            tsunami,
            min_alert,
            limiter,
            rate,
            bucket,
            counter_rule,
            always_from,
            reserve,
            reserve_from,
            cost,
            excess,
            mode,
            updates,
            quiet,
            zone,
            quiet_below,
        } = self;
        email.is_none()
            && webhook.is_none()
            && form.is_empty()
            && tags.is_none()
            && min_magnitude.is_none()
            && max_depth_km.is_none()
            && near.is_none()
            && within_km.is_none()
            && bbox.is_none()
            && r#type.is_none()
            && tsunami.is_none()
            && min_alert.is_none()
            && limiter.is_none()
            && rate.is_none()
            && bucket.is_none()
            && counter_rule.is_none()
            && always_from.is_none()
            && reserve.is_none()
            && reserve_from.is_none()
            && cost.is_none()
            && excess.is_none()
            && mode.is_none()
            && updates.is_none()
            && quiet.is_none()
            && zone.is_none()
            && quiet_below.is_none()
    }

    fn destination(&self) -> Option<Destination> {
        let email = self.email.clone().map(Destination::Email);
        email.or_else(|| self.webhook.clone().map(Destination::Webhook))
    }

    fn apply_interest(&self, interest: &mut Interest) -> Result<(), Failure> {
        interest.min_magnitude = self.min_magnitude.unwrap_or(interest.min_magnitude);
        set(&mut interest.max_depth_km, self.max_depth_km.as_ref());
        set(&mut interest.min_pager, self.min_alert.as_ref());
        interest.tsunami = self.tsunami.unwrap_or(interest.tsunami);
        if let Some(kinds) = &self.r#type {
            interest.kinds = kinds.clone();
        }
        interest.region = self.region(interest.region)?;
        Ok(())
    }

    fn region(&self, before: Option<Region>) -> Result<Option<Region>, Failure> {
        let circle_before = match before {
            Some(Region::Near { coordinates, within_km }) => Some((coordinates, within_km)),
            _ => None,
        };
        match (&self.bbox, &self.near, self.within_km) {
            (Some(OrNone(bbox)), _, None) => Ok(bbox.map(Region::Box)),
            (Some(_), _, Some(_)) => Err(Failure::usage("--within-km belongs to --near, not to --bbox")),
            (None, None, None) => Ok(before),
            (None, Some(OrNone(None)), None) => Ok(None),
            (None, Some(OrNone(None)), Some(_)) => {
                Err(Failure::usage("--within-km has no place around which it would be: --near is none"))
            }
            (None, Some(OrNone(Some(place))), within_km) => {
                let Some(within_km) = within_km.or(circle_before.map(|(_, within_km)| within_km)) else {
                    return Err(Failure::usage("how far around the place? Expected --within-km R beside --near"));
                };
                Ok(Some(Region::Near { coordinates: *place, within_km }))
            }
            (None, None, Some(within_km)) => match circle_before {
                Some((coordinates, _)) => Ok(Some(Region::Near { coordinates, within_km })),
                None => Err(Failure::usage("around which place? Expected --near LAT,LON beside --within-km")),
            },
        }
    }

    fn apply_policy(&self, policy: &mut Policy) -> Result<(), Failure> {
        policy.limit = self.limit(Some(policy.limit))?;
        set(&mut policy.always_from, self.always_from.as_ref());
        policy.reserve = match (&self.reserve, self.reserve_from) {
            (None, None) => policy.reserve,
            (Some(OrNone(None)), None) => None,
            (Some(OrNone(None)), Some(_)) => {
                return Err(Failure::usage("--reserve-from has no reserve to belong to: --reserve is none"));
            }
            (Some(OrNone(Some(Kept(keep)))), from) => match from.or(policy.reserve.map(|reserve| reserve.from)) {
                Some(from) => Some(Reserve { keep: *keep, from }),
                None => {
                    return Err(Failure::usage("for which events is the reserve? Expected --reserve-from M beside --reserve"));
                }
            },
            (None, Some(from)) => match policy.reserve {
                Some(reserve) => Some(Reserve { from, ..reserve }),
                None => return Err(Failure::usage("how many are reserved? Expected --reserve K beside --reserve-from")),
            },
        };
        if let Some(OrNone(costs)) = &self.cost {
            policy.costs = costs.as_ref().map_or_else(Vec::new, |Costs(steps)| steps.clone());
        }
        policy.check().map_err(Failure::usage)
    }

    fn quiet_hours(&self, before: Option<QuietHours>) -> Result<Option<QuietHours>, Failure> {
        let beside = if self.zone.is_some() { "--zone" } else { "--quiet-below" };
        let alone = self.zone.is_none() && self.quiet_below.is_none();
        let mut quiet = match (&self.quiet, before) {
            (Some(OrNone(None)), _) if alone => return Ok(None),
            (Some(OrNone(None)), _) => {
                return Err(Failure::usage(format!("{beside} has no quiet hours to belong to: --quiet is none")));
            }
            (Some(OrNone(Some(hours))), Some(before)) => QuietHours { hours: *hours, ..before },
            (Some(OrNone(Some(hours))), None) => QuietHours { hours: *hours, zone: Zone::default(), below: None },
            (None, None) if !alone => {
                return Err(Failure::usage(format!("when is it quiet? Expected --quiet FROM-TO beside {beside}")));
            }
            (None, None) => return Ok(None),
            (None, Some(before)) => before,
        };
        quiet.zone = self.zone.clone().unwrap_or(quiet.zone);
        set(&mut quiet.below, self.quiet_below.as_ref());
        Ok(Some(quiet))
    }

    /// The limit that the flags make of the one before, or of the default.
    fn limit(&self, before: Option<Limit>) -> Result<Limit, Failure> {
        let algorithm = self.limiter.or(before.map(Limit::algorithm)).unwrap_or(Algorithm::TokenBucket);
        let rate = match self.rate.or(before.map(Limit::rate)) {
            Some(rate) => rate,
            None => DEFAULT_RATE.parse().map_err(Failure::usage)?,
        };
        let kept_bucket = || before.map_or(Some(DEFAULT_BUCKET), |limit| limit.bucket().map(u64::from)).unwrap_or(DEFAULT_BUCKET);
        let bucket = match self.bucket {
            None if algorithm.has_bucket() => Some(kept_bucket()),
            given => given,
        };
        let kept_rule = before.filter(|_| algorithm == Algorithm::SlidingCounter).map(Limit::rule);
        let rule = self.counter_rule.or(kept_rule).unwrap_or_default();
        Limit::new(algorithm, rate, bucket).and_then(|limit| limit.with_rule(rule)).map_err(Failure::usage)
    }
}

/// Sets or lifts what a flag names.
fn set<T: Clone>(target: &mut Option<T>, flag: Option<&OrNone<T>>) {
    if let Some(OrNone(value)) = flag {
        target.clone_from(value);
    }
}
