//! `--curve`: the smallest bucket at every rate between two.

use std::str::FromStr;

use serde_json::{Value, json};

use crate::analysis::{self, Corner};
use crate::cli::output::{self, Side};
use crate::plot;
use crate::rate::Rate;
use crate::time::{Span, Timestamp};

/// The most whole rates that are listed beside the corners.
const MAX_WHOLE_RATES: u64 = 1_000;

/// Two rates of one window, written `1..38/h`.
#[derive(Clone, Copy, Debug)]
pub(super) struct CurveSpan {
    from: Rate,
    to: Rate,
}

impl FromStr for CurveSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<CurveSpan, String> {
        let malformed = || format!("'{text}' is not a span of rates: expected FROM..TO/WINDOW, like 1..38/h");
        let (limits, window) = text.split_once('/').ok_or_else(malformed)?;
        let (from, to) = limits.split_once("..").ok_or_else(malformed)?;
        let rate = |limit: &str| format!("{limit}/{window}").parse::<Rate>().map_err(|fault| fault.to_string());
        let (from, to) = (rate(from)?, rate(to)?);
        if from.limit() < to.limit() { Ok(CurveSpan { from, to }) } else { Err(malformed()) }
    }
}

/// The curve of one catalogue.
pub(super) struct CurveAnswer {
    window: Span,
    corners: Vec<Corner>,
    /// The smallest bucket at whole rates: each, or if there are very many, as many of them evenly spread.
    whole: Vec<(u64, u64)>,
}

impl CurveAnswer {
    pub fn find(span: CurveSpan, times: &[Timestamp]) -> CurveAnswer {
        let window = span.from.window();
        let (from, to) = (u64::from(span.from.limit()), u64::from(span.to.limit()));
        let step = ((to - from) / MAX_WHOLE_RATES).max(1);
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        let rates: Vec<Rate> = (from..=to).step_by(step).filter_map(|limit| Rate::new(limit, window).ok()).collect();
        let needs = analysis::needs(times, &rates);
        let whole = needs.results.iter().map(|result| (u64::from(result.rate.limit()), result.bucket)).collect();
        CurveAnswer { window, corners: analysis::curve(times, span.from, span.to), whole }
    }

    pub fn as_json(&self) -> Value {
        let corner = |corner: &Corner| {
            json!({
                "rate": corner.rate.to_string(),
                "per_window": rounded(corner.rate.per(self.window)),
                "bucket": corner.bucket,
                "level": rounded(corner.level),
                "critical_run": super::answer::run_as_json(&corner.critical_run),
            })
        };
        json!({
            "window_s": output::seconds(self.window),
            "corners": self.corners.iter().map(corner).collect::<Vec<_>>(),
            "whole_rates": self.whole.iter().map(|(rate, bucket)| json!({ "limit": rate, "bucket": bucket })).collect::<Vec<_>>(),
        })
    }

    pub fn as_text(&self) -> String {
        let per = format!("rate per {}", self.window.in_words());
        let columns = [
            (per.as_str(), Side::Right),
            ("bucket", Side::Right),
            ("level", Side::Right),
            ("critical run", Side::Right),
            ("from", Side::Left),
            ("lasting", Side::Right),
        ];
        let rows = self.corners.iter().map(|corner| {
            vec![
                format!("{:.4}", corner.rate.per(self.window)),
                output::count(corner.bucket),
                format!("{:.4}", corner.level),
                format!("{} events", output::count(corner.critical_run.events)),
                corner.critical_run.first.to_string(),
                output::duration(corner.critical_run.duration()),
            ]
        });
        let whole = self.whole.iter().map(|(rate, bucket)| vec![output::count(*rate), output::count(*bucket)]);
        format!(
            "The curve of the smallest bucket: straight between its corners, where the critical run changes.\n\n{}\n\
             At whole rates:\n\n{}",
            output::table(&columns, rows),
            output::table(&[(per.as_str(), Side::Right), ("bucket", Side::Right)], whole),
        )
    }

    pub fn picture(&self) -> String {
        let corner = |corner: &Corner| plot::Corner {
            rate: corner.rate.per(self.window),
            level: corner.level,
            critical_run: Some(corner.critical_run.events),
        };
        plot::Curve {
            title: "The smallest bucket that loses nothing".to_owned(),
            window: self.window.in_words(),
            corners: self.corners.iter().map(corner).collect(),
            whole_rates: self.whole.iter().map(|&(rate, bucket)| plot::WholeRate { rate, bucket }).collect(),
        }
        .to_svg()
    }
}

/// Six decimals, as the contract shows a level.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
