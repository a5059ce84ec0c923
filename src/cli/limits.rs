//! The limits on deliveries: from the entries of the configuration to what the daemon keeps, checked as a whole.

use super::failure::Failure;
use super::setup::{Loaded, REDIS_PASSWORD};
use crate::config::{LOCAL, LimitConfig};
use crate::limiter::Limit;
use crate::limits::{self, Covers, DeliveryLimit, FallbackPolicy, Kind, LimitsError, Shared};
use crate::shared::{SharedStore, StoreAddress, exact};
use crate::store::{Location, StoreError, lanes};
use crate::subscriber::Tag;

impl Loaded {
    /// The limits on deliveries.
    pub fn limits(&self) -> Result<Vec<DeliveryLimit>, Failure> {
        let limits = self.config.limit.iter().map(|limit| self.limit(limit)).collect::<Result<Vec<_>, Failure>>()?;
        limits::check(&limits).map_err(|fault| self.wrong_limit(&fault))?;
        Ok(limits)
    }

    /// The server that keeps the state of shared limits, if any is shared.
    pub fn limit_store(&self) -> Result<Option<SharedStore>, Failure> {
        let mut store: Option<(&LimitConfig, StoreAddress)> = None;
        for limit in self.config.limit.iter().filter(|limit| limit.store != LOCAL) {
            let named = |fault: &dyn std::fmt::Display| self.wrong_limit(&format!("'{}': {fault}", limit.name));
            let address: StoreAddress = limit.store.parse().map_err(|fault| named(&fault))?;
            match &store {
                Some((other, theirs)) if *theirs != address => {
                    let fault =
                        format!("its store is {address}, and that of '{}' {theirs}; expected one server for all", other.name);
                    return Err(named(&fault));
                }
                _ => store = Some((limit, address)),
            }
        }
        let Some((limit, address)) = store else { return Ok(None) };
        let password = REDIS_PASSWORD.read(self.config.redis.password_file.as_deref())?;
        let address = match password {
            Some(password) => address.with_password(password),
            None => address,
        };
        let store = SharedStore::new(address);
        store.map(Some).map_err(|fault| self.wrong_limit(&format!("'{}': {fault}", limit.name)))
    }

    pub fn wrong_limit(&self, fault: &dyn std::fmt::Display) -> Failure {
        Failure::usage(format!("{} {fault}", self.at("limit")))
    }

    fn limit(&self, config: &LimitConfig) -> Result<DeliveryLimit, Failure> {
        let LimitConfig { name, algorithm, rate, bucket, counter_rule, cost, outage, instances, .. } = config;
        let named = |fault: &dyn std::fmt::Display| self.wrong_limit(&format!("'{name}': {fault}"));
        let limit = Limit::new(*algorithm, *rate, *bucket).and_then(|limit| limit.with_rule(*counter_rule));
        let is_local = config.store == LOCAL;
        let shared = match (is_local, outage, instances) {
            (true, None, None) => None,
            (true, ..) => return Err(self.wrong_limit(&LimitsError::LocalOutage(name.clone()))),
            (false, Some(FallbackPolicy::LocalShare), None) => {
                return Err(self.wrong_limit(&LimitsError::Instances(name.clone())));
            }
            (false, outage, instances) => {
                Some(Shared { outage: outage.unwrap_or(FallbackPolicy::FailClosed), instances: instances.unwrap_or(1) })
            }
        };
        let limit = limit.map_err(|fault| named(&fault))?;
        if !is_local {
            exact(limit).map_err(|fault| named(&fault))?;
        }
        Ok(DeliveryLimit { name: name.clone(), covers: self.covers(config)?, limit, cost: *cost, shared })
    }

    fn covers(&self, config: &LimitConfig) -> Result<Covers, Failure> {
        let LimitConfig { name, channel, host, tag, all, .. } = config;
        let wrong = |fault: LimitsError| self.wrong_limit(&fault);
        match (channel, host, tag, all) {
            (Some(channel), None, None, false) => Kind::named(channel, name).map(Covers::Channel).map_err(wrong),
            (None, Some(host), None, false) => self.host(&format!("limit '{name}': host"), host).map(Covers::Host),
            (None, None, Some(tag), false) => {
                let tag = tag.parse::<Tag>().map_err(|fault| self.wrong_limit(&format!("'{name}': {fault}")))?;
                Ok(Covers::Tag(tag))
            }
            (None, None, None, true) => Ok(Covers::All),
            (None, None, None, false) => Err(wrong(LimitsError::NoCover(name.clone()))),
            _ => Err(wrong(LimitsError::SeveralCovers(name.clone()))),
        }
    }

    /// Which of the limits cover nothing that goes to any subscriber of this database, and why. Without a database, or
    /// subscribers, nobody can tell.
    pub fn idle_limits(&self, limits: &[DeliveryLimit], database: &Location) -> Result<Vec<String>, StoreError> {
        let names_some = limits.iter().any(|limit| matches!(limit.covers, Covers::Host(_) | Covers::Tag(_)));
        if !names_some || matches!(database, Location::File(path) if !path.exists()) {
            return Ok(Vec::new());
        }
        let lanes = lanes(database)?.unwrap_or_default();
        let idle = limits.iter().filter_map(|limit| Some((&limit.name, limit.covers.misses(&lanes)?)));
        Ok(idle.map(|(name, why)| format!("{} '{name}' covers nothing: {why}", self.at("limit"))).collect())
    }
}

/// One limit in words, for people.
pub(super) fn told(limit: &DeliveryLimit) -> String {
    let cost = if limit.cost == 1 { String::new() } else { format!("; a delivery costs {}", limit.cost) };
    format!("{}, {}: {}{cost}", limit.name, limit.covers, limit.limit.promise())
}
